"""How many lines are found: by the stages, and by the detection model as RapidOCR uses it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rapidocr import RapidOCR
from rich.table import Table

from pagewarden.bench.volumes import truth, volumes
from pagewarden.reading import limits, opening
from pagewarden.volumes import geometry
from pagewarden.volumes.artifacts import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pagewarden.bench.ocr import corpus

    Drawn = Mapping[str, Sequence[truth.Polygon]]

BARE = "detection model alone"
STAGES = "stages"
MERGING = "stages, merge_lines"


def table(pages: Sequence[corpus.Page]) -> Table:
    """Measure all pages of which somebody has drawn the lines."""
    known = [page for page in pages if truth.load(page.path)]
    made = Table(
        *("", "lines", "found (IoU ≥ 0.5)", "found (baseline)", "of those drawn are right"),
        title=f"Lines of {len(known)} pages",
    )
    for name, score in _scores(known):
        made.add_row(
            name,
            str(score.lines),
            f"{score.overlapping / score.lines:.1%}",
            f"{max(score.based) / score.lines:.1%}",
            f"{score.right / max(score.drawn, 1):.1%}",
        )
    return made


def _scores(pages: Sequence[corpus.Page]) -> Iterator[tuple[str, truth.Score]]:
    yield BARE, _score(pages, _drawn_by_the_model(pages))
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        for name, merge in ((STAGES, False), (MERGING, True)):
            volume = volumes.bind(Path(folder, name), pages, merge_lines=merge)
            for _ in volume.run(volumes.READ[:2]):
                pass
            yield name, _score(pages, _drawn_by_stages(volume))


def _score(pages: Sequence[corpus.Page], drawn: Drawn) -> truth.Score:
    scores = [
        truth.score(truth.load(page.path) or [], drawn.get(f"{number:04d}", ()))
        for number, page in enumerate(pages)
    ]
    return sum(scores, truth.NOTHING)


def _drawn_by_the_model(pages: Sequence[corpus.Page]) -> Drawn:
    """Call RapidOCR as its README does, for detection only."""
    engine, drawn = RapidOCR(params={"Global.log_level": "error"}), {}
    for number, page in enumerate(pages):
        image = opening.open_document(page.path, limits.Limits()).page(1).render()
        found = engine(image.pixels, use_det=True, use_cls=False, use_rec=False)
        boxes = getattr(found, "boxes", None)
        drawn[f"{number:04d}"] = [] if boxes is None else list(np.asarray(boxes, np.float32))
    return drawn


def _drawn_by_stages(volume: volumes.Bound) -> Drawn:
    keys, output = volume.work().keys, volume.root / "output"
    with parquet.Reader(output / keys.line_detection, parquet.LINE_DETECTION, "") as detected:
        back = {page.image_name: geometry.WayBack(page) for page in detected if page.ok}
    drawn: dict[str, list[truth.Polygon]] = {}
    with parquet.Reader(output / keys.line_images, parquet.LINE_IMAGES, "") as lines:
        for line in lines:
            if line.corners is not None:
                places = back[line.image_name].places(line.corners).astype(np.float32)
                drawn.setdefault(line.image_name, []).append(places)
    return drawn
