"""Measure how curved the lines of a page are, straighten it, and map points back to the original.

A page is straightened by a thin-plate spline: the smoothest surface through, or near, points of
known height. Here the height is the distance in pixels by which a point moves down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr.images.pixels import make_inverse_transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.volumes.artifacts.rows import DetectedPage

# Lines that determine the shape of a page, and the fit.
_MIN_LENGTH_SHARE = 0.25  # of the width of the page
_MIN_ASPECT = 6.0  # length by height; pictures and blots are less
_MIN_LINES = 3
_MAX_LINES = 40  # more of them do not change the shape
_LONG_LINE_SHARE = 0.7  # of the longest line; shorter ones look straighter than their page is
_MAX_THICKNESS = 1.6  # relative to the median; two lines that touch are thicker
_SAMPLES = 12  # points along a line where its height is measured
_DEGREE = 4  # of the polynomial that describes the shape of a page
_FIT_ROUNDS = 3  # each ignores the outliers of the previous one
_OUTLIER = 0.3  # distance from the fitted shape, in heights of the core
_GRID = 32  # pixels between points where the spline is evaluated

# Heights are measured on a coarse image, so the spline need not pass through them exactly. Lengths
# are in units of the points' extent.
_STIFFNESS = 1e-5


# Measuring and straightening ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Midline:
    """The middle of a line of text from left to right, and the height of its core."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    core: float

    def undo_straightening(self, points: Sequence[Sequence[float]]) -> Midline:
        """Return the line as it was before the page was straightened by these points."""
        shifts = fit_spline(points).compute_heights(np.column_stack((self.x, self.y)))
        return Midline(self.x, self.y + shifts, self.core)

    @property
    def length(self) -> float:
        """Return the distance from end to end."""
        return float(self.x[-1] - self.x[0])

    @property
    def straight(self) -> NDArray[np.float64]:
        """Return the heights of the best-fitting straight line."""
        return np.asarray(np.polyval(np.polyfit(self.x, self.y, 1), self.x))

    @property
    def deviation(self) -> float:
        """Return how far the line departs from straight, in heights of its core."""
        return float(np.ptp(self.y - self.straight) / self.core)


def find_midlines(outlines: Sequence[NDArray[np.int32]], width: int) -> list[Midline]:
    """Find the middles of the long lines on a page of this width, from top to bottom."""
    found = (_to_midline(outline, _MIN_LENGTH_SHARE * width) for outline in outlines)
    lines = sorted((line for line in found if line), key=lambda line: -line.length)
    return sorted(lines[:_MAX_LINES], key=lambda line: float(line.y.mean()))


def measure_curvature(lines: Sequence[Midline]) -> float | None:
    """Measure how far the longest lines depart from straight, in heights of their cores.

    None if there are too few lines.
    """
    if len(lines) < _MIN_LINES:
        return None
    longest = max(line.length for line in lines)
    return float(
        np.median([line.deviation for line in lines if line.length > _LONG_LINE_SHARE * longest])
    )


def find_shifts(lines: Sequence[Midline], width: int) -> list[tuple[float, float, float]]:
    """Return rows of x, y, and by how many pixels that point is lower on the curved page."""
    x, y = (np.concatenate([getattr(line, axis) for line in lines]) for axis in "xy")
    line_numbers = np.repeat(np.arange(len(lines)), [len(line.x) for line in lines])
    cores = np.array([line.core for line in lines])[line_numbers]
    is_inlier = np.ones(len(x), bool)
    # A line that touches its neighbour is half a line off; it must not bend the page.
    for _ in range(_FIT_ROUNDS):
        levels, shape = _fit_shape(x / width * 2 - 1, y, line_numbers, is_inlier)
        is_inlier = np.abs(y - levels[line_numbers] - shape) < _OUTLIER * cores
        if 2 * is_inlier.sum() < len(is_inlier):  # no shape fits, so use every point
            is_inlier[:] = True
    rows = np.column_stack((x, levels[line_numbers], y - levels[line_numbers]))
    return [(x, y, shift) for x, y, shift in rows[is_inlier].round(2).tolist()]


def straighten(pixels: NDArray[np.uint8], points: Sequence[Sequence[float]]) -> NDArray[np.uint8]:
    """Move each pixel of a page up or down by the spline through the points of find_shifts."""
    height, width = pixels.shape[:2]
    x, y = np.arange(0, width + _GRID, _GRID), np.arange(0, height + _GRID, _GRID)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(np.float64)
    coarse = fit_spline(points).compute_heights(grid).reshape(len(y), len(x)).astype(np.float32)
    rows = np.arange(height, dtype=np.float32)[:, None]
    columns = np.broadcast_to(np.arange(width, dtype=np.float32)[None, :], (height, width))
    source_rows = _interpolate(coarse, width, height) + rows
    paper = np.atleast_1d(np.median(pixels[::16, ::16], axis=(0, 1))).tolist()
    moved = cv2.remap(pixels, columns, source_rows, cv2.INTER_CUBIC, borderValue=paper)
    return np.asarray(moved, np.uint8)


def _to_midline(outline: NDArray[np.int32], min_length: float) -> Midline | None:
    left, top, width, height = cv2.boundingRect(outline)
    if width < min_length:
        return None
    mask = np.zeros((height, width), np.uint8)
    cv2.drawContours(mask, [outline], -1, 1, cv2.FILLED, offset=(-left, -top))
    thickness = mask.sum(axis=0, dtype=np.int64)
    middles = (mask * np.arange(height)[:, None]).sum(axis=0) / np.maximum(thickness, 1)
    core = float(np.median(thickness))
    if width < _MIN_ASPECT * core:
        return None
    # Parts that are much thicker touch another line.
    usable = np.flatnonzero((thickness > 0) & (thickness < _MAX_THICKNESS * core))
    samples = np.array_split(usable, _SAMPLES)
    return Midline(
        np.array([left + part.mean() for part in samples]),
        np.array([top + np.median(middles[part]) for part in samples]),
        core,
    )


def _fit_shape(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    line_numbers: NDArray[np.int64],
    is_inlier: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit the height of each line and one shape of the page together; x is from -1 to 1.

    This makes short lines level with long ones beside them. The shape is a polynomial across the
    page that changes linearly from top to bottom.
    """
    count = line_numbers.max() + 1
    down = (y - y.mean()) / (np.ptp(y) or 1.0)
    across = np.polynomial.legendre.legvander(x, _DEGREE)[:, 1:]
    shape = np.hstack((across, across * down[:, None]))
    unknowns = np.hstack((np.eye(count)[line_numbers], shape))
    solution, *_ = np.linalg.lstsq(unknowns[is_inlier], y[is_inlier], rcond=None)
    return np.asarray(solution[:count]), np.asarray(shape @ solution[count:])


def _interpolate(coarse: NDArray[np.float32], width: int, height: int) -> NDArray[np.float32]:
    """Interpolate between values computed at every _GRID-th pixel."""
    scale = np.array(((1 / _GRID, 0, 0), (0, 1 / _GRID, 0)), np.float32)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(coarse, scale, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    )


# Thin-plate spline --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ThinPlateSpline:
    """A surface over a plane, limited to the heights of the points it was fitted to."""

    places: NDArray[np.float64]
    weights: NDArray[np.float64]
    centre: NDArray[np.float64]
    extent: float
    lowest: float
    highest: float

    def compute_heights(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the height at each place, rows of x and y."""
        scaled = (positions - self.centre) / self.extent
        flat = np.column_stack((np.ones(len(scaled)), scaled))
        bent = _evaluate_kernel(scaled, self.places)
        heights = np.hstack((bent, flat)) @ self.weights
        return np.clip(heights, self.lowest, self.highest)


def fit_spline(points: Sequence[Sequence[float]]) -> ThinPlateSpline:
    """Fit a surface to points, rows of x, y and height."""
    rows = np.asarray(points, np.float64)
    centre = rows[:, :2].mean(axis=0)
    extent = float(np.abs(rows[:, :2] - centre).max()) or 1.0
    places = (rows[:, :2] - centre) / extent
    count = len(rows)
    flat = np.column_stack((np.ones(count), places))
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = _evaluate_kernel(places, places) + _STIFFNESS * count * np.eye(count)
    system[:count, count:], system[count:, :count] = flat, flat.T
    weights, *_ = np.linalg.lstsq(system, np.append(rows[:, 2], np.zeros(3)), rcond=None)
    return ThinPlateSpline(
        places, np.asarray(weights, np.float64), centre, extent, rows[:, 2].min(), rows[:, 2].max()
    )


def _evaluate_kernel(
    positions: NDArray[np.float64], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return r² log r for the distance r from each place to each point."""
    squares = ((positions[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(0.5 * squares * np.log(np.maximum(squares, 1e-18)))


# Mapping back -------------------------------------------------------------------------------------


class OriginalMapping:
    """Maps points of a rotated image to the original: undoes dewarping, rotation and scaling."""

    def __init__(self, page: DetectedPage) -> None:
        scaled = page.scaled_width or 0, page.scaled_height or 0
        # page_angle is the sum of rotation and skew; rotating by the sum rotates by both.
        self._matrix = make_inverse_transform(
            0,
            -(page.page_angle or 0.0),
            (page.rotated_width or 0, page.rotated_height or 0),
            scaled,
        )
        self._scale = np.array((page.width or 1, page.height or 1)) / np.maximum(scaled, 1)
        self._spline = fit_spline(page.tps_points) if page.tps_points else None

    @property
    def is_curved(self) -> bool:
        """Return whether straight lines of the rotated image may be curved on the original."""
        return self._spline is not None

    def map_points(self, points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
        """Map points, rows of x and y."""
        moved = np.array(points, np.float64).reshape(-1, 2)
        if self._spline is not None:
            moved[:, 1] += self._spline.compute_heights(moved)
        rotated = moved @ self._matrix[:, :2].T + self._matrix[:, 2]
        return np.asarray(rotated * self._scale)
