"""How many lines are found: by the stages, and by the detection model as RapidOCR uses it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from rapidocr import RapidOCR
from rich.table import Table

from benchmarks.volumes import sample_volume
from pagewarden.reading import limits, opening
from pagewarden.volumes import geometry
from pagewarden.volumes.artifacts import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.ocr import corpus

    Polygon = NDArray[np.float32]
    Drawn = Mapping[str, Sequence[Polygon]]


BARE = "detection model alone"
STAGES = "stages"
MERGING = "stages, merge_lines"


def table(pages: Sequence[corpus.Page]) -> Table:
    """Measure all pages of which somebody has drawn the lines."""
    known = [page for page in pages if load_lines(page.path)]
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


def _scores(pages: Sequence[corpus.Page]) -> Iterator[tuple[str, Score]]:
    yield BARE, _score(pages, _drawn_by_the_model(pages))
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        for name, merge in ((STAGES, False), (MERGING, True)):
            volume = sample_volume.bind(Path(folder, name), pages, merge_lines=merge)
            for _ in volume.run(sample_volume.READ[:2]):
                pass
            yield name, _score(pages, _drawn_by_stages(volume))


def _score(pages: Sequence[corpus.Page], drawn: Drawn) -> Score:
    scores = [
        score_lines(load_lines(page.path) or [], drawn.get(f"{number:04d}", ()))
        for number, page in enumerate(pages)
    ]
    return sum(scores, NOTHING)


def _drawn_by_the_model(pages: Sequence[corpus.Page]) -> Drawn:
    """Call RapidOCR as its README does, for detection only."""
    engine, drawn = RapidOCR(params={"Global.log_level": "error"}), {}
    for number, page in enumerate(pages):
        image = opening.open_document(page.path, limits.Limits()).page(1).render()
        found = engine(image.pixels, use_det=True, use_cls=False, use_rec=False)
        boxes = getattr(found, "boxes", None)
        drawn[f"{number:04d}"] = [] if boxes is None else list(np.asarray(boxes, np.float32))
    return drawn


def _drawn_by_stages(volume: sample_volume.Bound) -> Drawn:
    keys, output = volume.work().keys, volume.root / "output"
    with parquet.Reader(output / keys.line_detection, parquet.LINE_DETECTION, "") as detected:
        back = {page.image_name: geometry.WayBack(page) for page in detected if page.ok}
    drawn: dict[str, list[Polygon]] = {}
    with parquet.Reader(output / keys.line_images, parquet.LINE_IMAGES, "") as lines:
        for line in lines:
            if line.corners is not None:
                places = back[line.image_name].places(line.corners).astype(np.float32)
                drawn.setdefault(line.image_name, []).append(places)
    return drawn


# Lines of the truth -------------------------------------------------------------------------------
# Lines as people have drawn them on pages of a corpus, and how many of them are found.


SUFFIX = ".lines.json"

_OVERLAP = 0.5  # intersection over union: what has as much is the same line
_COVERED = 0.75  # of a baseline lies by one that was found
_NEAR = 0.25  # of the distance of two lines may be between two baselines that are the same
ASCENTS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
"""How much of the height of a box may stand above its baseline; who draws boxes with a wider margin
has another share, and some of the truth has lines through the middle of the letters."""

_RASTER = 256.0  # pixels of the longer side of the picture on which two lines are compared
_SAMPLES = 40


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of the truth: its outline and what it stands on, rows of x and y in pixels."""

    polygon: Polygon
    baseline: Polygon

    @property
    def height(self) -> float:
        """Measure how high it is, away from its ends."""
        area, length = cv2.contourArea(self.polygon), float(np.ptp(self.polygon[:, 0]))
        return float(area / max(length, 1.0))

    def spans(self, x: float) -> bool:
        """Tell whether it reaches over a column of pixels."""
        return bool(self.baseline[:, 0].min() <= x <= self.baseline[:, 0].max())

    def at(self, x: float) -> float:
        """Give the height at which it stands there."""
        order = self.baseline[:, 0].argsort()
        return float(np.interp(x, *self.baseline[order].T))


@dataclass(frozen=True, slots=True)
class Score:
    """How many lines there are, how many were found by either measure, and how many were drawn.

    based has a count for each of ASCENTS; right counts those drawn that are a line of the truth by
    their overlap.
    """

    lines: int
    overlapping: int
    based: tuple[int, ...]
    drawn: int
    right: int

    def __add__(self, other: Score) -> Score:
        return Score(
            self.lines + other.lines,
            self.overlapping + other.overlapping,
            tuple(map(sum, zip(self.based, other.based, strict=True))),
            self.drawn + other.drawn,
            self.right + other.right,
        )


_NONE = (0,) * len(ASCENTS)
NOTHING = Score(0, 0, _NONE, 0, 0)


def load_lines(image: Path) -> list[Line] | None:
    """Read the lines of an image; None where nobody has drawn any."""
    path = image.with_name(image.name.rsplit(".", 1)[0] + SUFFIX)
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return [
        Line(np.array(line["polygon"], np.float32), np.array(line["baseline"], np.float32))
        for line in found
        if len(line["polygon"]) >= 3 and len(line["baseline"]) >= 2
    ]


def score_lines(lines: Sequence[Line], drawn: Sequence[Polygon]) -> Score:
    """Compare the truth with quads that were drawn, clockwise from where their text begins."""
    overlaps = np.array([[_overlap(line.polygon, quad) for quad in drawn] for line in lines])
    if not overlaps.size:
        return Score(len(lines), 0, _NONE, len(drawn), 0)
    same = overlaps >= _OVERLAP
    tolerance = _NEAR * _distance_of_lines(lines)
    based = tuple(
        sum(_is_based(line, bases, tolerance) for line in lines)
        for ascent in ASCENTS
        for bases in [[_base(quad, ascent) for quad in drawn]]
    )
    return Score(
        len(lines), int(same.any(axis=1).sum()), based, len(drawn), int(same.any(axis=0).sum())
    )


def _overlap(one: Polygon, other: Polygon) -> float:
    """Divide intersection by union."""
    both = np.vstack((one, other))
    low, high = both.min(axis=0), both.max(axis=0)
    separate = (np.maximum(one.min(axis=0), other.min(axis=0)) >= np.minimum(
        one.max(axis=0), other.max(axis=0)
    )).any()  # fmt: skip
    if separate:
        return 0.0
    scale = _RASTER / max(float((high - low).max()), 1.0)
    # Lines are long: what is thin is drawn larger, so that it has as many pixels.
    scales = np.array((scale, min(_RASTER / 4 / max(float((high - low)[1]), 1.0), 4.0)))
    size = np.ceil((high - low) * scales).astype(int) + 1
    first, second = (_raster((each - low) * scales, size) for each in (one, other))
    return float((first & second).sum() / max((first | second).sum(), 1))


def _raster(polygon: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.uint8]:
    picture = np.zeros((size[1], size[0]), np.uint8)
    return np.asarray(cv2.fillPoly(picture, [np.rint(polygon).astype(np.int32)], 1))


def _distance_of_lines(lines: Sequence[Line]) -> float:
    """Measure how far below each other lines usually are."""
    distances = []
    for line in lines:
        x, y = line.baseline.mean(axis=0)
        steps = [other.at(x) - y for other in lines if other.spans(x)]
        distances.append(min((step for step in steps if step > line.height / 2), default=np.nan))
    known = [step for step in distances if np.isfinite(step)]
    return float(np.median(known or [2 * line.height for line in lines]))


def _is_based(line: Line, bases: Sequence[tuple[Polygon, Polygon]], tolerance: float) -> bool:
    """Tell whether most of a baseline lies by those that were drawn, in one piece or in several."""
    points = _along(line.baseline)
    near = np.zeros(len(points), bool)
    for base in bases:
        near |= _distance(points, *base) <= tolerance
    return bool(near.mean() >= _COVERED)


def _base(quad: Polygon, ascent: float) -> tuple[Polygon, Polygon]:
    top_left, top_right, bottom_right, bottom_left = quad
    return (
        top_left + (bottom_left - top_left) * ascent,
        top_right + (bottom_right - top_right) * ascent,
    )


def _along(baseline: Polygon) -> NDArray[np.float64]:
    """Take points at even distances along a baseline."""
    steps = np.r_[0.0, np.hypot(*np.diff(baseline, axis=0).T).cumsum()]
    places = np.linspace(0, steps[-1], _SAMPLES)
    return np.column_stack([np.interp(places, steps, baseline[:, axis]) for axis in (0, 1)])


def _distance(points: NDArray[np.float64], start: Polygon, end: Polygon) -> NDArray[np.float64]:
    """Measure how far points are from a piece of a straight line."""
    along = np.asarray(end - start, np.float64)
    share = np.clip((points - start) @ along / max(float(along @ along), 1e-9), 0, 1)
    nearest = start + share[:, None] * along
    return np.asarray(np.hypot(*(points - nearest).T))
