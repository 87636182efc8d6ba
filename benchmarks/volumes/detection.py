"""Count the lines found by the stages, and by the detection model as RapidOCR uses it."""

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
from pagewarden.ocr import document, limits
from pagewarden.volumes import dewarping
from pagewarden.volumes.artifacts import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.ocr import corpus

    Polygon = NDArray[np.float32]
    DetectedLines = Mapping[str, Sequence[Polygon]]


BARE = "detection model alone"
STAGES = "stages"
MERGING = "stages, merge_lines"


def make_table(pages: Sequence[corpus.Page]) -> Table:
    """Measure all pages with annotated lines."""
    annotated = [page for page in pages if load_lines(page.path)]
    table = Table(
        *("", "lines", "found (IoU ≥ 0.5)", "found (baseline)", "correct"),
        title=f"Lines of {len(annotated)} pages",
    )
    for name, score in _measure(annotated):
        table.add_row(
            name,
            str(score.lines),
            f"{score.overlapping / score.lines:.1%}",
            f"{max(score.on_baseline) / score.lines:.1%}",
            f"{score.correct / max(score.detected, 1):.1%}",
        )
    return table


def _measure(pages: Sequence[corpus.Page]) -> Iterator[tuple[str, Score]]:
    yield BARE, _score(pages, _detect_with_model(pages))
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        for name, merge in ((STAGES, False), (MERGING, True)):
            volume = sample_volume.make_volume(Path(folder, name), pages, merge_lines=merge)
            for _ in volume.run(sample_volume.READ[:2]):
                pass
            yield name, _score(pages, _detect_with_stages(volume))


def _score(pages: Sequence[corpus.Page], detected: DetectedLines) -> Score:
    scores = [
        score_lines(load_lines(page.path) or [], detected.get(f"{number:04d}", ()))
        for number, page in enumerate(pages)
    ]
    return sum(scores, ZERO)


def _detect_with_model(pages: Sequence[corpus.Page]) -> DetectedLines:
    """Detect lines with RapidOCR as in its README."""
    engine, detected = RapidOCR(params={"Global.log_level": "error"}), {}
    for number, page in enumerate(pages):
        image = document.open_document(page.path, limits.Limits()).open_page(1).render()
        result = engine(image.pixels, use_det=True, use_cls=False, use_rec=False)
        boxes = getattr(result, "boxes", None)
        detected[f"{number:04d}"] = [] if boxes is None else list(np.asarray(boxes, np.float32))
    return detected


def _detect_with_stages(volume: sample_volume.SampleVolume) -> DetectedLines:
    keys, output = volume.stage_input().keys, volume.root / "output"
    with parquet.Reader(output / keys.line_detection, parquet.LINE_DETECTION, "") as pages:
        mappings = {page.image_name: dewarping.OriginalMapping(page) for page in pages if page.ok}
    detected: dict[str, list[Polygon]] = {}
    with parquet.Reader(output / keys.line_images, parquet.LINE_IMAGES, "") as lines:
        for line in lines:
            if line.corners is not None:
                corners = mappings[line.image_name].map_points(line.corners).astype(np.float32)
                detected.setdefault(line.image_name, []).append(corners)
    return detected


# Ground truth -------------------------------------------------------------------------------------
# Lines that people have annotated on pages of a corpus, and the score of detected ones.


SUFFIX = ".lines.json"

_MIN_OVERLAP = 0.5  # intersection over union of boxes of the same line
_MIN_COVERED = 0.75  # share of a baseline that lies near a detected one
_TOLERANCE = 0.25  # maximum distance of matching baselines, as a share of the line spacing
ASCENTS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
"""Positions of the baseline as shares of the height of a box. The best one is used: it depends on
the margins of the boxes, and some annotated baselines cross the middle of the letters."""

_RASTER = 256.0  # longer side, in pixels, of the image on which two lines are compared
_SAMPLES = 40


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """An annotated line: outline and baseline, as rows of x and y in pixels."""

    polygon: Polygon
    baseline: Polygon

    @property
    def height(self) -> float:
        """Return the mean height."""
        area, length = cv2.contourArea(self.polygon), float(np.ptp(self.polygon[:, 0]))
        return float(area / max(length, 1.0))

    def spans(self, x: float) -> bool:
        """Return whether the line spans a column of pixels."""
        return bool(self.baseline[:, 0].min() <= x <= self.baseline[:, 0].max())

    def y_at(self, x: float) -> float:
        """Return the y coordinate of the baseline at a column."""
        order = self.baseline[:, 0].argsort()
        return float(np.interp(x, *self.baseline[order].T))


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of annotated lines, of those found by either measure, and of detected lines.

    `on_baseline` has a count for each of ASCENTS; `correct` counts detected lines that overlap an
    annotated one.
    """

    lines: int
    overlapping: int
    on_baseline: tuple[int, ...]
    detected: int
    correct: int

    def __add__(self, other: Score) -> Score:
        return Score(
            self.lines + other.lines,
            self.overlapping + other.overlapping,
            tuple(map(sum, zip(self.on_baseline, other.on_baseline, strict=True))),
            self.detected + other.detected,
            self.correct + other.correct,
        )


_NO_COUNTS = (0,) * len(ASCENTS)
ZERO = Score(0, 0, _NO_COUNTS, 0, 0)


def load_lines(image: Path) -> list[Line] | None:
    """Read the annotated lines of an image; None if there are none."""
    path = image.with_name(image.name.rsplit(".", 1)[0] + SUFFIX)
    if not path.exists():
        return None
    lines = json.loads(path.read_text(encoding="utf-8"))
    return [
        Line(np.array(line["polygon"], np.float32), np.array(line["baseline"], np.float32))
        for line in lines
        if len(line["polygon"]) >= 3 and len(line["baseline"]) >= 2
    ]


def score_lines(lines: Sequence[Line], detected: Sequence[Polygon]) -> Score:
    """Score detected quads, whose corners are clockwise from the start of the text."""
    overlaps = np.array(
        [[_compute_overlap(line.polygon, quad) for quad in detected] for line in lines]
    )
    if not overlaps.size:
        return Score(len(lines), 0, _NO_COUNTS, len(detected), 0)
    matches = overlaps >= _MIN_OVERLAP
    tolerance = _TOLERANCE * _compute_line_spacing(lines)
    on_baseline = tuple(
        sum(_is_on_baseline(line, bases, tolerance) for line in lines)
        for ascent in ASCENTS
        for bases in [[_compute_baseline(quad, ascent) for quad in detected]]
    )
    return Score(
        len(lines),
        int(matches.any(axis=1).sum()),
        on_baseline,
        len(detected),
        int(matches.any(axis=0).sum()),
    )


def _compute_overlap(one: Polygon, other: Polygon) -> float:
    """Return the intersection over union."""
    both = np.vstack((one, other))
    low, high = both.min(axis=0), both.max(axis=0)
    separate = (np.maximum(one.min(axis=0), other.min(axis=0)) >= np.minimum(
        one.max(axis=0), other.max(axis=0)
    )).any()  # fmt: skip
    if separate:
        return 0.0
    scale = _RASTER / max(float((high - low).max()), 1.0)
    # Lines are thin: the vertical scale is larger, so that they have enough pixels.
    scales = np.array((scale, min(_RASTER / 4 / max(float((high - low)[1]), 1.0), 4.0)))
    size = np.ceil((high - low) * scales).astype(int) + 1
    first, second = (_draw((each - low) * scales, size) for each in (one, other))
    return int((first & second).sum()) / max(int((first | second).sum()), 1)


def _draw(polygon: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.uint8]:
    image = np.zeros((size[1], size[0]), np.uint8)
    return np.asarray(cv2.fillPoly(image, [np.rint(polygon).astype(np.int32)], 1))


def _compute_line_spacing(lines: Sequence[Line]) -> float:
    """Return the median distance of a line to the next one below."""
    distances = []
    for line in lines:
        x, y = line.baseline.mean(axis=0)
        steps = [other.y_at(x) - y for other in lines if other.spans(x)]
        distances.append(min((step for step in steps if step > line.height / 2), default=np.nan))
    known = [step for step in distances if np.isfinite(step)]
    return float(np.median(known or [2 * line.height for line in lines]))


def _is_on_baseline(line: Line, bases: Sequence[tuple[Polygon, Polygon]], tolerance: float) -> bool:
    """Return whether detected baselines, one or several, cover most of a line's."""
    points = _sample_points(line.baseline)
    near = np.zeros(len(points), bool)
    for base in bases:
        near |= _compute_distances(points, *base) <= tolerance
    return bool(near.mean() >= _MIN_COVERED)


def _compute_baseline(quad: Polygon, ascent: float) -> tuple[Polygon, Polygon]:
    top_left, top_right, bottom_right, bottom_left = quad
    return (
        top_left + (bottom_left - top_left) * ascent,
        top_right + (bottom_right - top_right) * ascent,
    )


def _sample_points(baseline: Polygon) -> NDArray[np.float64]:
    """Return evenly spaced points along a baseline."""
    steps = np.r_[0.0, np.hypot(*np.diff(baseline, axis=0).T).cumsum()]
    positions = np.linspace(0, steps[-1], _SAMPLES)
    return np.column_stack([np.interp(positions, steps, baseline[:, axis]) for axis in (0, 1)])


def _compute_distances(
    points: NDArray[np.float64], start: Polygon, end: Polygon
) -> NDArray[np.float64]:
    """Return the distances of points to a line segment."""
    along = np.asarray(end - start, np.float64)
    share = np.clip((points - start) @ along / max(float(along @ along), 1e-9), 0, 1)
    nearest = start + share[:, None] * along
    return np.asarray(np.hypot(*(points - nearest).T))
