"""Find the direction in which the text of a page runs, from where its letters stand.

A letter is a connected blot of ink. Seen along the lines of a text, the letters' centres crowd into
few rows with gaps between them; seen from any other direction they spread. Centres do not depend on
how the page is turned, so one look at a small image of the page serves all directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagewarden.reading import ink, turning

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEWEST = 40  # letters below which a page has no direction worth knowing
_COARSE = np.arange(-45.0, 135.0)
_FINE = np.arange(-1.5, 1.51, 0.1)
_PEAK = 1.9  # times the crowding in most directions; text has 2.1 to 10, a photo 1.7 at most
_SIDEWAYS = 1.1  # by how much wider than across gaps along must be: a page stands upright in doubt
_SKEWED = 1.05  # by how much a slant must explain a page better than none


def direction(marks: NDArray[np.uint8], letters: ink.Letters) -> float | None:
    """Tell at which angle the lines run: degrees clockwise from left to right, -45 to 135.

    Which end of a line is its beginning stays open. None where nothing looks like lines.
    """
    if len(letters) < _FEWEST:
        return None
    coarse = float(_COARSE[_crowding(letters, _COARSE, 3.0).argmax()])
    level = turning.level(marks, (coarse + 45) % 90 - 45)
    straight = 90.0 if _runs_down(level, letters) else 0.0
    angle, crowding = _refine(letters, (coarse - straight + 45) % 90 - 45 + straight, straight)
    clear = crowding > _PEAK * np.median(_crowding(letters, _COARSE[::4], 1.0))
    return angle if clear else None


def _crowding(letters: ink.Letters, angles: NDArray[np.float64], cell: float) -> NDArray[np.int64]:
    """Sum the squares of how many letters share a row, for rows that run at each of the angles."""
    radians = np.deg2rad(angles).astype(np.float32)[:, None]
    across = (letters.y * np.cos(radians) - letters.x * np.sin(radians)) / np.float32(cell)
    row = (across - across.min()).astype(np.int32)
    rows = int(row.max()) + 1
    row += np.arange(len(angles), dtype=np.int32)[:, None] * rows
    counts = np.bincount(row.ravel(), minlength=rows * len(angles)).reshape(-1, rows)
    return np.asarray((counts * counts).sum(1))


def _runs_down(marks: NDArray[np.uint8], letters: ink.Letters) -> bool:
    """Tell whether text that is level or upright by now runs down the page rather than along it.

    The letters of typewriters, tables and Chinese stand in columns as straight as their lines.
    But in any script the gaps along a line are narrower than those between lines. Charts may have
    it the other way; they have no long lines then.
    """
    widest = 3 * float(np.median(np.maximum(letters.width, letters.height)))
    if _gap(marks, widest) < _SIDEWAYS * _gap(marks.T, widest):
        return False
    along = ink.find_lines(marks, float(np.median(letters.height)))
    down = ink.find_lines(np.ascontiguousarray(marks.T), float(np.median(letters.width)))
    return bool(2 * down[:, 2].sum() > along[:, 2].sum())


def _gap(marks: NDArray[np.uint8], widest: float) -> float:
    """Measure the mean gap between ink in rows; wider ones lie between columns of text."""
    row, place = np.nonzero(marks[::5])
    gaps = np.diff(place)[np.diff(row) == 0]
    gaps = gaps[(gaps > 1) & (gaps <= widest)]
    return float(gaps.mean()) if len(gaps) else 0.0


def _refine(letters: ink.Letters, coarse: float, straight: float) -> tuple[float, float]:
    """Look closely around an angle, or take the straight one where that is about as good.

    Tells too how crowded it is there.
    """
    angles = coarse + _FINE
    *crowding, undisturbed = _crowding(letters, np.append(angles, straight), 1.0)
    if max(crowding) < _SKEWED * undisturbed:
        return straight, undisturbed
    smooth = np.convolve(np.pad(crowding, 1, "edge"), (0.25, 0.5, 0.25), "valid")
    return float(angles[smooth.argmax()]), max(crowding)
