"""Where the lines of a page are, found by the PP-OCR detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading.lines import networks

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The network halves its image five times.
_MULTIPLE = 32

# A small image is scaled up, but only so far: there is nothing more to be seen.
_MOST_GROWTH = 2.0

_TEXT = 0.3
_LINE = 0.5
# The network marks the core of a line; this much of area over outline is the rest of it.
_GROWTH = 1.6
_THINNEST = 3.0


class Detector:
    """Finds lines; long_side is what the longer side of a page is scaled to, in pixels."""

    def __init__(self, long_side: int, device: networks.Device = networks.ONE_CORE) -> None:
        self._session = networks.detector(device)
        self._long_side = long_side

    def find(self, pixels: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
        """Give the four corners of each line, clockwise from the top left one, top line first."""
        heat = self._heat(pixels)
        factors = np.array(pixels.shape[1::-1], np.float32) / np.array(heat.shape[::-1], np.float32)
        mask = cv2.dilate((heat > _TEXT).astype(np.uint8), np.ones((2, 2), np.uint8))
        contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        quads = [_quad(np.asarray(contour, np.int32), heat) for contour in contours]
        found = [np.asarray(quad * factors, np.float32) for quad in quads if quad is not None]
        return sorted(found, key=lambda quad: (float(quad[0, 1]), float(quad[0, 0])))

    def _heat(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Say of each pixel of the scaled page how surely it belongs to a line."""
        height, width = pixels.shape[:2]
        factor = min(self._long_side / max(height, width), _MOST_GROWTH)
        size = [max(round(side * factor / _MULTIPLE), 1) * _MULTIPLE for side in (width, height)]
        area = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        scaled = cv2.resize(pixels, size, interpolation=area).astype(np.float32)
        (heat,) = self._session.run(None, {"x": networks.planes(scaled)[None]})
        return np.asarray(heat[0, 0])


def _quad(contour: NDArray[np.int32], heat: NDArray[np.float32]) -> NDArray[np.float32] | None:
    centre, (width, height), angle = cv2.minAreaRect(contour)
    if min(width, height) < _THINNEST or _mean(contour, heat) < _LINE:
        return None
    growth = 2 * _GROWTH * width * height / (2 * (width + height))
    corners = cv2.boxPoints((centre, (width + growth, height + growth), angle))
    return _clockwise(np.asarray(corners, np.float32))


def _mean(contour: NDArray[np.int32], heat: NDArray[np.float32]) -> float:
    left, top, width, height = cv2.boundingRect(contour)
    mask = np.zeros((height, width), np.uint8)
    cv2.drawContours(mask, [contour], -1, 1, cv2.FILLED, offset=(-left, -top))
    return cv2.mean(heat[top : top + height, left : left + width], mask)[0]


def _clockwise(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Begin with the corner nearest the top left; minAreaRect turns clockwise already."""
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)
