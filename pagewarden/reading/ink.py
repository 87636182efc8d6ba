"""Find the ink of a page, and in it what may be letters and lines, on a small image of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AREA = 700_000  # pixels of the small image: ten-point letters of an A4 page are 5 pixels high
_WINDOW = 25  # ink is darker than the mean of this neighbourhood ...
_CONTRAST = 15  # ... by more than this
_LEAST_BLOT = 4  # pixels; what is smaller is a speck


@dataclass(frozen=True, slots=True)
class Letters:
    """Blots of ink of the size of letters: their centres and extents, in pixels."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    width: NDArray[np.float32]
    height: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.x)


def reduce(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Make a small grey image."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) if pixels.ndim == 3 else pixels
    # Halving is many times as fast as scaling by any other factor, so it goes first.
    while grey.size > 4 * _AREA and min(grey.shape) > 1:
        height, width = grey.shape[0] // 2, grey.shape[1] // 2
        even = grey[: 2 * height, : 2 * width]
        grey = cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA)
    scale = (_AREA / grey.size) ** 0.5
    if scale < 1:
        size = [max(1, round(side * scale)) for side in grey.shape[::-1]]
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(grey, np.uint8)


def mark(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Mark with 1 what is darker than its neighbourhood, and the rest with 0."""
    around = cv2.boxFilter(grey, -1, (_WINDOW, _WINDOW))
    return (cv2.subtract(around, grey) > _CONTRAST).astype(np.uint8)


def is_inked(pixels: NDArray[np.uint8]) -> bool:
    """Tell whether there is anything on a page but paper and specks."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(mark(reduce(pixels)))
    return bool((stats[1:, cv2.CC_STAT_AREA] >= _LEAST_BLOT).any())


def find_letters(marks: NDArray[np.uint8]) -> Letters:
    """Find the blots that may be letters; neither specks nor pictures, rules and borders."""
    _, _, stats, centres = cv2.connectedComponentsWithStats(marks)
    width, height, area = stats[1:, 2:5].T
    longer, shorter = np.maximum(width, height), np.minimum(width, height)
    fits = (area >= _LEAST_BLOT) & (longer >= 3) & (longer <= 120) & (shorter <= 60)
    x, y = centres[1:][fits].astype(np.float32).T
    return Letters(x, y, width[fits].astype(np.float32), height[fits].astype(np.float32))


def find_lines(marks: NDArray[np.uint8], size: float) -> NDArray[np.float64]:
    """Find level lines of letters of that height, as rows of left, top, width and height.

    Letters run together sideways; what then is long and about as high as most is a line.
    """
    reach = np.ones((1, max(3, round(1.5 * size))), np.uint8)
    joined = cv2.morphologyEx(marks, cv2.MORPH_CLOSE, reach)
    # What is joined stays so with every third column, and is found in a third of the time.
    _, _, stats, _ = cv2.connectedComponentsWithStats(np.ascontiguousarray(joined[:, ::3]))
    boxes = stats[1:, :4] * np.array((3.0, 1.0, 3.0, 1.0))
    width, height = boxes[:, 2], boxes[:, 3]
    boxes = boxes[(width >= 4 * height) & (height >= 0.8 * size) & (height <= 4 * size)]
    usual = np.median(np.repeat(boxes[:, 3], boxes[:, 2].astype(int))) if len(boxes) else 0.0
    fits = (boxes[:, 3] > usual / 1.5) & (boxes[:, 3] < usual * 1.5)
    return np.asarray(boxes[fits])
