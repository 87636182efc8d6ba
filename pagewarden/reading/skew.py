"""Find the direction in which the text of a page runs, from where its letters stand.

A letter is a connected blot of ink. Seen along the lines of a text, the letters' centres crowd into
few rows with gaps between them; seen from any other direction they spread. Centres do not depend on
how the page is turned, so one look at a small image of the page serves all directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading import turning

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AREA = 700_000  # pixels of the small image: ten-point letters of an A4 page are 5 pixels high
_WINDOW = 25  # ink is darker than the mean of this neighbourhood ...
_CONTRAST = 15  # ... by more than this
_FEWEST = 40  # letters below which a page has no direction worth knowing
_COARSE = np.arange(-45.0, 135.0)
_FINE = np.arange(-1.5, 1.51, 0.1)
_PEAK = 1.6  # over the middle of all directions; text has 2 to 9, a cloud of dots 1.2
_SIDEWAYS = 1.1  # by how much wider than across gaps along must be: a page stands upright in doubt
_SKEWED = 1.05  # by how much a slant must explain a page better than none


@dataclass(frozen=True, slots=True)
class Letters:
    """Blots of ink of the size of letters: their centres and extents, in pixels."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    width: NDArray[np.float32]
    height: NDArray[np.float32]

    @property
    def size(self) -> float:
        """Give the larger extent of the middle letter; 0 where there is none."""
        return float(np.median(np.maximum(self.width, self.height))) if len(self.x) else 0.0


def reduce(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Make a grey image of at most the area that is needed here."""
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


def ink(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Mark with 1 what is darker than its neighbourhood."""
    around = cv2.boxFilter(grey, -1, (_WINDOW, _WINDOW))
    return (cv2.subtract(around, grey) > _CONTRAST).astype(np.uint8)


def find_letters(marks: NDArray[np.uint8]) -> Letters:
    """Find the blots that may be letters; neither specks nor pictures, rules and borders."""
    _, _, stats, centres = cv2.connectedComponentsWithStats(marks)
    width, height, area = stats[1:, 2:5].T
    longer, shorter = np.maximum(width, height), np.minimum(width, height)
    fits = (area >= 4) & (longer >= 3) & (longer <= 120) & (shorter <= 60)
    x, y = centres[1:][fits].astype(np.float32).T
    return Letters(x, y, width[fits].astype(np.float32), height[fits].astype(np.float32))


def direction(marks: NDArray[np.uint8], letters: Letters) -> float | None:
    """Tell at which angle the lines run: degrees clockwise from left to right, -45 to 135.

    Which end of a line is its beginning stays open. None where nothing looks like lines.
    """
    if len(letters.x) < _FEWEST:
        return None
    crowding = _crowding(letters, _COARSE, 3.0)
    if crowding.max() < _PEAK * np.median(crowding):
        return None
    coarse = float(_COARSE[crowding.argmax()])
    level = turning.level(marks, (coarse + 45) % 90 - 45)
    straight = 90.0 if _runs_down(level, letters.size) else 0.0
    return _refine(letters, (coarse - straight + 45) % 90 - 45 + straight, straight)


def _crowding(letters: Letters, angles: NDArray[np.float64], cell: float) -> NDArray[np.int64]:
    """Sum the squares of how many letters share a row, for rows that run at each of the angles."""
    radians = np.deg2rad(angles).astype(np.float32)[:, None]
    across = (letters.y * np.cos(radians) - letters.x * np.sin(radians)) / np.float32(cell)
    row = (across - across.min()).astype(np.int32)
    rows = int(row.max()) + 1
    row += np.arange(len(angles), dtype=np.int32)[:, None] * rows
    counts = np.bincount(row.ravel(), minlength=rows * len(angles)).reshape(-1, rows)
    return np.asarray((counts * counts).sum(1))


def _runs_down(marks: NDArray[np.uint8], size: float) -> bool:
    """Tell whether text that is level or upright by now runs down the page rather than along it.

    The letters of typewriters, tables and Chinese stand in columns as straight as their lines.
    But in any script the gaps along a line are narrower than those between lines.
    """
    along, across = _gap(marks, 3 * size), _gap(marks.T, 3 * size)
    return along > _SIDEWAYS * across


def _gap(marks: NDArray[np.uint8], widest: float) -> float:
    """Measure the mean gap between ink in rows; wider ones lie between columns of text."""
    row, place = np.nonzero(marks[::5])
    gaps = np.diff(place)[np.diff(row) == 0]
    gaps = gaps[(gaps > 1) & (gaps <= widest)]
    return float(gaps.mean()) if len(gaps) else 0.0


def _refine(letters: Letters, coarse: float, straight: float) -> float:
    """Look closely around an angle; prefer the straight one where that is about as good."""
    angles = coarse + _FINE
    *crowding, undisturbed = _crowding(letters, np.append(angles, straight), 1.0)
    if max(crowding) < _SKEWED * undisturbed:
        return straight
    smooth = np.convolve(np.pad(crowding, 1, "edge"), (0.25, 0.5, 0.25), "valid")
    return float(angles[smooth.argmax()])
