"""A line cut out of its page and set level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading import pages

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Pixels. Both readers scale lines to less than this anyway (48 and 36).
_TALLEST = 64

# What is this much taller than wide is a line that runs down the page.
_UPRIGHT = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """The pixels of a line, and its corners on the page, clockwise from where its text begins."""

    pixels: NDArray[np.uint8]
    corners: NDArray[np.float32]

    @property
    def grey(self) -> NDArray[np.uint8]:
        """Give the pixels without their colours."""
        if self.pixels.ndim == 2:
            return self.pixels
        return np.asarray(cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY), np.uint8)

    def part(self, left: float, right: float) -> pages.Quad:
        """Give the corners of the part between two places along the line, 0 to 1."""
        top_left, top_right, bottom_right, bottom_left = self.corners
        corners = (
            top_left + (top_right - top_left) * left,
            top_left + (top_right - top_left) * right,
            bottom_left + (bottom_right - bottom_left) * right,
            bottom_left + (bottom_right - bottom_left) * left,
        )
        first, second, third, fourth = (pages.Point(*corner.tolist()) for corner in corners)
        return first, second, third, fourth


def cut(pixels: NDArray[np.uint8], corners: NDArray[np.float32]) -> Crop:
    """Cut out what the corners enclose; they go clockwise from the top left."""
    width, height = _size(corners)
    if height > _UPRIGHT * width:
        corners = np.roll(corners, -1, axis=0)
        width, height = height, width
    factor = min(_TALLEST / max(height, 1.0), 1.0)
    source, place = _reduced(pixels, corners, factor)
    right, bottom = max(round(width * factor), 1), max(round(height * factor), 1)
    target = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float32)
    level = cv2.warpPerspective(
        source,
        cv2.getPerspectiveTransform(place, target),
        (right, bottom),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return Crop(np.asarray(level, np.uint8), corners)


def _size(corners: NDArray[np.float32]) -> tuple[float, float]:
    return (
        float(np.linalg.norm(corners[0] - corners[1])),
        float(np.linalg.norm(corners[0] - corners[3])),
    )


def _reduced(
    pixels: NDArray[np.uint8], corners: NDArray[np.float32], factor: float
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Scale down the surroundings of a line first where warping alone would skip pixels."""
    if factor > 0.75:
        return pixels, corners
    left, top = np.maximum(np.floor(corners.min(axis=0)).astype(int) - 2, 0)
    right, bottom = np.ceil(corners.max(axis=0)).astype(int) + 2
    around = pixels[top:bottom, left:right]
    if not around.size:
        return pixels, corners
    small = cv2.resize(around, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    scale = np.array(small.shape[1::-1]) / np.array(around.shape[1::-1])
    return np.asarray(small, np.uint8), ((corners - (left, top)) * scale).astype(np.float32)
