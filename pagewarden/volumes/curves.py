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
_STATIONS = 12  # places along a line at which its height is measured
_MOST_LINES = 40  # more of them do not change the shape
_CORE = 2.5  # times as high as its core is a line
_GRID = 32  # pixels between places at which the spline is computed


@dataclass(frozen=True, slots=True, eq=False)
class Midline:
    """The middle of a line of text from left to right, and how high its core is."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    core: float

    @property
    def straight(self) -> NDArray[np.float64]:
        """Give the heights of the straight line that fits best."""
        return np.asarray(np.polyval(np.polyfit(self.x, self.y, 1), self.x))

    @property
    def departure(self) -> float:
        """Measure how far it departs from straight, in heights of the line."""
        return float(np.abs(self.y - self.straight).max() / (_CORE * self.core))


def midlines(outlines: Sequence[NDArray[np.int32]], width: int) -> list[Midline]:
    """Find the middles of the long lines of a page so wide."""
    found = (_midline(outline, _LONG * width) for outline in outlines)
    lines = sorted((line for line in found if line), key=lambda line: line.x[0] - line.x[-1])
    return sorted(lines[:_MOST_LINES], key=lambda line: float(line.y.mean()))


def curvature(lines: Sequence[Midline]) -> float | None:
    """Measure how far the lines of a page depart from straight; None where there are too few."""
    if len(lines) < _FEWEST:
        return None
    return float(np.median([line.departure for line in lines]))


def straightening(lines: Sequence[Midline]) -> list[list[float]]:
    """Give rows of x, y and by how much further down the same place is on the curved page."""
    return [
        [float(x), float(level), float(y - level)]
        for line in lines
        for level in [round(float(line.y.mean()), 2)]
        for x, y in zip(line.x.round(2), line.y.round(2), strict=True)
    ]


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
    stations = np.array_split(np.flatnonzero(thickness), _STATIONS)
    return Midline(
        np.array([left + part.mean() for part in stations]),
        np.array([top + np.median(middles[part]) for part in stations]),
        core,
    )
