"""Where the lines of a page are, found by the PP-OCR detector or by another network like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading.lines import networks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

GROWTH = 1.6
"""The network marks the core of a line; this much of area over outline is the rest of it."""

# The network halves its image five times.
_MULTIPLE = 32

# A small image is scaled up, but only so far: there is nothing more to be seen.
_MOST_GROWTH = 2.0

_TEXT = 0.3
_LINE = 0.5
_THINNEST = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """The core of a line: its outline, rows of x and y, and how sure the network is, 0 to 1."""

    outline: NDArray[np.int32]
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """What the network marks on a page: a mask of 0 and 1, and the cores of lines in it.

    Both are of a smaller image; factors lead from its pixels to those of the page.
    """

    mask: NDArray[np.uint8]
    cores: Sequence[Core]
    factors: NDArray[np.float32]


class Detector:
    """Finds lines; long_side is what the longer side of a page is scaled to, in pixels.

    model is an ONNX file with another network.
    """

    def __init__(
        self,
        long_side: int,
        device: networks.Device = networks.ONE_CORE,
        *,
        model: Path | None = None,
    ) -> None:
        self._session = networks.own_detector(model, device) if model else networks.detector(device)
        self._size = networks.fixed_size(self._session)
        self._input = self._session.get_inputs()[0].name
        self._long_side = long_side

    def find(self, pixels: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
        """Give the four corners of each line, clockwise from the top left one, top line first."""
        marked = self.mark(pixels)
        quads = [grown(core.outline, GROWTH) * marked.factors for core in marked.cores]
        found = [np.asarray(quad, np.float32) for quad in quads]
        return sorted(found, key=lambda quad: (float(quad[0, 1]), float(quad[0, 0])))

    def mark(self, pixels: NDArray[np.uint8]) -> Marked:
        """Mark the cores of lines."""
        heat = self._heat(pixels)
        mask = cv2.dilate((heat > _TEXT).astype(np.uint8), np.ones((2, 2), np.uint8))
        contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        found = (_core(np.asarray(contour, np.int32), heat) for contour in contours)
        factors = np.asarray(np.divide(pixels.shape[1::-1], heat.shape[::-1]), np.float32)
        return Marked(np.asarray(mask), [core for core in found if core is not None], factors)

    def _heat(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Say of each pixel of the scaled page how surely it belongs to a line."""
        height, width = pixels.shape[:2]
        factor = min(self._long_side / max(height, width), _MOST_GROWTH)
        size = self._size or [
            max(round(side * factor / _MULTIPLE), 1) * _MULTIPLE for side in (width, height)
        ]
        area = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        scaled = cv2.resize(pixels, size, interpolation=area).astype(np.float32)
        (heat,) = self._session.run(None, {self._input: networks.planes(scaled)[None]})
        return np.asarray(heat[0, 0])


def grown(outline: NDArray[np.int32], growth: float) -> NDArray[np.float32]:
    """Give the corners of the rectangle around an outline, with growth of area over outline more.

    They go clockwise from the top left one.
    """
    centre, (width, height), angle = cv2.minAreaRect(outline)
    more = growth * width * height / max(width + height, 1.0)
    corners = cv2.boxPoints((centre, (width + more, height + more), angle))
    return _clockwise(np.asarray(corners, np.float32))


def _core(contour: NDArray[np.int32], heat: NDArray[np.float32]) -> Core | None:
    _, size, _ = cv2.minAreaRect(contour)
    if min(size) < _THINNEST or (sure := _mean(contour, heat)) < _LINE:
        return None
    return Core(contour.reshape(-1, 2), sure)


def _mean(contour: NDArray[np.int32], heat: NDArray[np.float32]) -> float:
    left, top, width, height = cv2.boundingRect(contour)
    mask = np.zeros((height, width), np.uint8)
    cv2.drawContours(mask, [contour], -1, 1, cv2.FILLED, offset=(-left, -top))
    return cv2.mean(heat[top : top + height, left : left + width], mask)[0]


def _clockwise(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Begin with the corner nearest the top left; minAreaRect turns clockwise already."""
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)
