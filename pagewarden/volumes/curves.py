"""How curved the lines of a page are, and how to set it straight by a thin-plate spline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.volumes import splines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Of the width of the page: shorter lines tell little about its shape.
_LONG = 0.25
_SLENDER = 6.0  # times as long as high is a line, and no picture or blot
_FEWEST = 3  # long lines make a page of which a shape can be told
_THICK = 1.6  # times as high as usual is the core of two lines in one
_STATIONS = 12  # places along a line at which its height is measured
_TELLING = 0.7  # of the longest line: shorter ones look straighter than their page is
_MOST_LINES = 40  # more of them do not change the shape
_DEGREE = 4  # of the polynomial that stands for the shape of a page
_ROUNDS = 3  # of fitting, each without what the one before found to be off
_OUTLIER = 0.3  # heights of its core is a place of a line off
_GRID = 32  # pixels between places at which the spline is computed


@dataclass(frozen=True, slots=True, eq=False)
class Midline:
    """The middle of a line of text from left to right, and how high its core is."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    core: float

    def before(self, points: Sequence[Sequence[float]]) -> Midline:
        """Give it as it was before the page was straightened by these points."""
        down = splines.through(points).heights(np.column_stack((self.x, self.y)))
        return Midline(self.x, self.y + down, self.core)

    @property
    def length(self) -> float:
        """Measure it from end to end."""
        return float(self.x[-1] - self.x[0])

    @property
    def straight(self) -> NDArray[np.float64]:
        """Give the heights of the straight line that fits best."""
        return np.asarray(np.polyval(np.polyfit(self.x, self.y, 1), self.x))

    @property
    def departure(self) -> float:
        """Measure how far it departs from straight, in heights of its core."""
        return float(np.ptp(self.y - self.straight) / self.core)


def midlines(outlines: Sequence[NDArray[np.int32]], width: int) -> list[Midline]:
    """Find the middles of the long lines of a page so wide."""
    found = (_midline(outline, _LONG * width) for outline in outlines)
    lines = sorted((line for line in found if line), key=lambda line: -line.length)
    return sorted(lines[:_MOST_LINES], key=lambda line: float(line.y.mean()))


def curvature(lines: Sequence[Midline]) -> float | None:
    """Measure how far the longest lines of a page depart from straight, in heights of their cores.

    None where there are too few lines to tell.
    """
    if len(lines) < _FEWEST:
        return None
    longest = max(line.length for line in lines)
    return float(np.median([line.departure for line in lines if line.length > _TELLING * longest]))


def straightening(lines: Sequence[Midline], width: int) -> list[tuple[float, float, float]]:
    """Give rows of x, y and by how much further down the same place is on the curved page."""
    x, y = (np.concatenate([getattr(line, axis) for line in lines]) for axis in "xy")
    which = np.repeat(np.arange(len(lines)), [len(line.x) for line in lines])
    cores = np.array([line.core for line in lines])[which]
    kept = np.ones(len(x), bool)
    # A line that grew together with its neighbour is half a line off: it must not bend the page.
    for _ in range(_ROUNDS):
        levels, shape = _fit(x / width * 2 - 1, y, which, kept)
        kept = np.abs(y - levels[which] - shape) < _OUTLIER * cores
        if 2 * kept.sum() < len(kept):  # no such page: it has to be taken as it is
            kept[:] = True
    rows = np.column_stack((x, levels[which], y - levels[which]))
    return [(x, y, down) for x, y, down in rows[kept].round(2).tolist()]


def _fit(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    which: NDArray[np.int64],
    kept: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit the height of each line and one shape of the whole page together; x is from -1 to 1.

    So short lines come to stand level with long ones beside them. The shape is a polynomial across
    the page that changes evenly from head to foot.
    """
    count = which.max() + 1
    down = (y - y.mean()) / (np.ptp(y) or 1.0)
    across = np.polynomial.legendre.legvander(x, _DEGREE)[:, 1:]
    shape = np.hstack((across, across * down[:, None]))
    unknowns = np.hstack((np.eye(count)[which], shape))
    found, *_ = np.linalg.lstsq(unknowns[kept], y[kept], rcond=None)
    return np.asarray(found[:count]), np.asarray(shape @ found[count:])


def straightened(pixels: NDArray[np.uint8], points: Sequence[Sequence[float]]) -> NDArray[np.uint8]:
    """Move each pixel of a page up or down as the points want it."""
    height, width = pixels.shape[:2]
    x, y = np.arange(0, width + _GRID, _GRID), np.arange(0, height + _GRID, _GRID)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(np.float64)
    coarse = splines.through(points).heights(grid).reshape(len(y), len(x)).astype(np.float32)
    rows = np.arange(height, dtype=np.float32)[:, None]
    columns = np.broadcast_to(np.arange(width, dtype=np.float32)[None, :], (height, width))
    down = _between(coarse, width, height) + rows
    paper = np.atleast_1d(np.median(pixels[::16, ::16], axis=(0, 1))).tolist()
    moved = cv2.remap(pixels, columns, down, cv2.INTER_CUBIC, borderValue=paper)
    return np.asarray(moved, np.uint8)


def _between(coarse: NDArray[np.float32], width: int, height: int) -> NDArray[np.float32]:
    """Interpolate what was computed for every _GRID-th pixel."""
    scale = np.array(((1 / _GRID, 0, 0), (0, 1 / _GRID, 0)), np.float32)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(coarse, scale, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    )


def _midline(outline: NDArray[np.int32], shortest: float) -> Midline | None:
    left, top, width, height = cv2.boundingRect(outline)
    if width < shortest:
        return None
    mask = np.zeros((height, width), np.uint8)
    cv2.drawContours(mask, [outline], -1, 1, cv2.FILLED, offset=(-left, -top))
    thickness = mask.sum(axis=0, dtype=np.int64)
    middles = (mask * np.arange(height)[:, None]).sum(axis=0) / np.maximum(thickness, 1)
    core = float(np.median(thickness))
    if width < _SLENDER * core:
        return None
    # Where it is much thicker it has grown together with another one.
    sound = np.flatnonzero((thickness > 0) & (thickness < _THICK * core))
    stations = np.array_split(sound, _STATIONS)
    return Midline(
        np.array([left + part.mean() for part in stations]),
        np.array([top + np.median(middles[part]) for part in stations]),
        core,
    )
