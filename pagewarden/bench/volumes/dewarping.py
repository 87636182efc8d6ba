"""What is read of curved and skewed pages, with dewarping and without."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from pagewarden.bench.ocr import corpus, scoring
from pagewarden.bench.volumes import bending, volumes

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(pages: Sequence[corpus.Page]) -> Table:
    """Bend all pages whose text is in order in each of the ways, and read them."""
    ordered = [page for page in pages if page.measure is corpus.Measure.ORDER]
    made = Table(
        *("pages", "CER without dewarping", "with", "pages dewarped"),
        title=f"{len(ordered)} pages, bent by a script",
    )
    for bend in bending.BENDS:
        cers, dewarped = [], 0
        for use_tps in (False, True):
            scores, applied = _read(ordered, bend, use_tps=use_tps)
            cers.append(f"{scoring.total(scores).cer:.2%}")
            dewarped = applied
        made.add_row(bend.name, *cers, str(dewarped))
    return made


def _read(
    pages: Sequence[corpus.Page], bend: bending.Bend, *, use_tps: bool
) -> tuple[list[scoring.Score], int]:
    scores, dewarped = [], 0
    for _, group in volumes.by_collection(pages):
        with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
            given = {"language": group[0].language, "use_tps": use_tps}
            volume = volumes.bind(Path(folder), [], **given)
            for number, page in enumerate(group):
                bending.write(page.path, volume.originals / f"{number:04d}.png", bend)
            for name, done, _ in volume.run(volumes.READ):
                dewarped += int(done.metrics["dewarped"]) if name == volumes.READ[0] else 0
            texts = volume.texts()
            scores += [scoring.score(page, text) for page, text in zip(group, texts, strict=True)]
    return scores, dewarped
