"""Find ink, letters and lines on a downscaled page, and the angle of its text lines.

A letter is a connected component of ink. Projected along the text lines, the centres of the letters
concentrate in few rows with gaps between them; in any other direction they spread. The centres do
not depend on the rotation of the page, so components are searched once for all directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr.images import pixels as images_pixels

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AREA = 700_000  # pixels of the downscaled page: ten-point letters of A4 are 5 pixels high
_WINDOW = 25  # ink is darker than the mean of its neighbourhood of this size ...
_CONTRAST = 15  # ... by more than this
_MIN_AREA = 4  # pixels of a component; smaller ones are specks


@dataclass(frozen=True, slots=True)
class LetterComponents:
    """Components of ink of the size of letters: their centres and extents, in pixels."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    width: NDArray[np.float32]
    height: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.x)


def downscale(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a small grey image."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) if pixels.ndim == 3 else pixels
    # Halving is much faster than scaling by another factor, so it comes first.
    while grey.size > 4 * _AREA and min(grey.shape) > 1:
        height, width = grey.shape[0] // 2, grey.shape[1] // 2
        even = grey[: 2 * height, : 2 * width]
        grey = cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA)
    scale = (_AREA / grey.size) ** 0.5
    if scale < 1:
        size = [max(1, round(side * scale)) for side in grey.shape[::-1]]
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(grey, np.uint8)


def mark_ink(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a mask with 1 for pixels that are darker than their neighbourhood."""
    around = cv2.boxFilter(grey, -1, (_WINDOW, _WINDOW))
    return (cv2.subtract(around, grey) > _CONTRAST).astype(np.uint8)


def has_ink(pixels: NDArray[np.uint8]) -> bool:
    """Tell whether a page has more than paper and specks."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(mark_ink(downscale(pixels)))
    return bool((stats[1:, cv2.CC_STAT_AREA] >= _MIN_AREA).any())


def find_letters(ink_mask: NDArray[np.uint8]) -> LetterComponents:
    """Find components that may be letters, not specks, pictures, rules or borders."""
    _, _, stats, centres = cv2.connectedComponentsWithStats(ink_mask)
    width, height, area = stats[1:, 2:5].T
    longer, shorter = np.maximum(width, height), np.minimum(width, height)
    fits = (area >= _MIN_AREA) & (longer >= 3) & (longer <= 120) & (shorter <= 60)
    x, y = centres[1:][fits].astype(np.float32).T
    return LetterComponents(x, y, width[fits].astype(np.float32), height[fits].astype(np.float32))


def find_lines(ink_mask: NDArray[np.uint8], size: float) -> NDArray[np.float64]:
    """Find level lines of letters of this height, as rows of left, top, width and height.

    Letters are joined horizontally; long components of about the usual height are lines.
    """
    reach = np.ones((1, max(3, round(1.5 * size))), np.uint8)
    joined = cv2.morphologyEx(ink_mask, cv2.MORPH_CLOSE, reach)
    # Every third column suffices for joined letters, and takes a third of the time.
    _, _, stats, _ = cv2.connectedComponentsWithStats(np.ascontiguousarray(joined[:, ::3]))
    boxes = stats[1:, :4] * np.array((3.0, 1.0, 3.0, 1.0))
    width, height = boxes[:, 2], boxes[:, 3]
    boxes = boxes[(width >= 4 * height) & (height >= 0.8 * size) & (height <= 4 * size)]
    typical = np.median(np.repeat(boxes[:, 3], boxes[:, 2].astype(int))) if len(boxes) else 0.0
    fits = (boxes[:, 3] > typical / 1.5) & (boxes[:, 3] < typical * 1.5)
    return np.asarray(boxes[fits])


_MIN_LETTERS = 40  # a page with fewer letters has no reliable direction
_COARSE = np.arange(-45.0, 135.0)
_FINE = np.arange(-1.5, 1.51, 0.1)
_MIN_PEAK = 1.9  # relative to the median concentration; text has 2.1 to 10, a photo 1.7 at most
_MIN_GAP_RATIO = 1.1  # of horizontal to vertical gaps, for text that runs down the page
_MIN_GAIN = 1.05  # of concentration by a slant, compared with no slant


def find_text_angle(ink_mask: NDArray[np.uint8], letters: LetterComponents) -> float | None:
    """Return the clockwise angle of the lines in degrees, -45 to 135; None without clear lines.

    The angle does not tell which end of a line is its beginning.
    """
    if len(letters) < _MIN_LETTERS:
        return None
    coarse = float(_COARSE[_measure_concentration(letters, _COARSE, 3.0).argmax()])
    level = images_pixels.deskew(ink_mask, (coarse + 45) % 90 - 45)
    straight = 90.0 if _is_vertical_text(level, letters) else 0.0
    angle, peak = _refine(letters, (coarse - straight + 45) % 90 - 45 + straight, straight)
    is_clear = peak > _MIN_PEAK * np.median(_measure_concentration(letters, _COARSE[::4], 1.0))
    return angle if is_clear else None


def _measure_concentration(
    letters: LetterComponents, angles: NDArray[np.float64], cell: float
) -> NDArray[np.int64]:
    """Return the sum of squares of the letters per row, for rows at each of the angles."""
    radians = np.deg2rad(angles).astype(np.float32)[:, None]
    across = (letters.y * np.cos(radians) - letters.x * np.sin(radians)) / np.float32(cell)
    row = (across - across.min()).astype(np.int32)
    rows = int(row.max()) + 1
    row += np.arange(len(angles), dtype=np.int32)[:, None] * rows
    counts = np.bincount(row.ravel(), minlength=rows * len(angles)).reshape(-1, rows)
    return np.asarray((counts * counts).sum(1))


def _is_vertical_text(ink_mask: NDArray[np.uint8], letters: LetterComponents) -> bool:
    """Tell whether deskewed text runs down the page instead of across it.

    The letters of typewriters, tables and Chinese form columns as straight as their lines. But in
    any script the gaps within a line are narrower than those between lines. Charts may be an
    exception, but have no long lines.
    """
    max_gap = 3 * float(np.median(np.maximum(letters.width, letters.height)))
    if _measure_mean_gap(ink_mask, max_gap) < _MIN_GAP_RATIO * _measure_mean_gap(
        ink_mask.T, max_gap
    ):
        return False
    along = find_lines(ink_mask, float(np.median(letters.height)))
    down = find_lines(np.ascontiguousarray(ink_mask.T), float(np.median(letters.width)))
    return bool(2 * down[:, 2].sum() > along[:, 2].sum())


def _measure_mean_gap(ink_mask: NDArray[np.uint8], max_gap: float) -> float:
    """Return the mean horizontal gap between ink; wider gaps separate columns of text."""
    row, column = np.nonzero(ink_mask[::5])
    gaps = np.diff(column)[np.diff(row) == 0]
    gaps = gaps[(gaps > 1) & (gaps <= max_gap)]
    return float(gaps.mean()) if len(gaps) else 0.0


def _refine(
    letters: LetterComponents, coarse_angle: float, straight_angle: float
) -> tuple[float, float]:
    """Refine an angle; prefer the straight one if it is about as good. Also return the peak."""
    angles = coarse_angle + _FINE
    *skewed, unskewed = _measure_concentration(letters, np.append(angles, straight_angle), 1.0)
    if max(skewed) < _MIN_GAIN * unskewed:
        return straight_angle, unskewed
    smooth = np.convolve(np.pad(skewed, 1, "edge"), (0.25, 0.5, 0.25), "valid")
    return float(angles[smooth.argmax()]), max(skewed)
