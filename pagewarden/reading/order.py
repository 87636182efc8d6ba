"""Bring the lines of a page into the order in which a person reads them.

The page is cut from top to bottom into strips of lines side by side, and strips that leave the
same gutter free make up a zone. A zone with a gutter holds columns, read one after the other, or a
table, read row by row; a zone without is read line by line.

Lengths are in units of the page's usual line height, so that resolution does not matter.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pagewarden.reading import pages

_CORE = 0.25  # of its height above and below its middle: lines that meet there are side by side
_DRAWN_WIDE = 0.25  # by so much detectors draw lines longer than they are, on either side
_GUTTER = 0.5  # the narrowest
_TALL = 1.8  # what is taller than this, like a drop cap, belongs to the first line it stands by
_CELL = 8.0  # columns of text are wider than this, some of those of a table are not
_LABEL = 4.0  # labels are narrower than this, if anything
_ALIKE = 0.6  # of the width of another column is about the same width
_LEVEL = 0.35  # cells of one row are level with each other to within this
_ALIGNED = 0.8  # of the cells of a table's columns are level with another one
_APART = 1.5  # from the text stand a running head and a foot
_BLOCK = 1.4  # times the usual distance of lines is that between blocks


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, or what a detector took for one, on a level page."""

    line: pages.Line
    left: float
    right: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        """Say at what height it is read."""
        height = self.bottom - self.top
        return self.top + (0.5 if height > _TALL else height / 2)


_Row = list[_Piece]
_Gap = tuple[float, float]


def in_reading_order(lines: Sequence[pages.Line]) -> tuple[pages.Line, ...]:
    """Sort lines, of any slant and in any order, and number their blocks.

    Pieces of one printed line follow each other from left to right. Columns do so too, or from
    right to left where most letters are Arabic or Hebrew. What runs up or down the margin of a
    page comes last.
    """
    if not lines:
        return ()
    level, aside = _levelled(lines)
    rows = [*_read(level), *([piece] for piece in aside)]
    return tuple(
        replace(piece.line, block=block)
        for block, row in zip(_blocks(rows), rows, strict=True)
        for piece in row
    )


def _levelled(lines: Sequence[pages.Line]) -> tuple[list[_Piece], list[_Piece]]:
    """Turn the page so that most text is level; set what then is not apart."""
    quads = np.array([line.quad for line in lines], np.float64)
    along = quads[:, 1] - quads[:, 0]
    slants, length = np.arctan2(along[:, 1], along[:, 0]), np.hypot(along[:, 0], along[:, 1])
    main = np.arctan2(*along.sum(0)[::-1])
    off = (slants - main + np.pi) % (2 * np.pi) - np.pi
    main += _weighted_median(off, length)
    turn = np.array(((np.cos(main), np.sin(main)), (-np.sin(main), np.cos(main))))
    corners = quads @ turn.T
    low, high = corners.min(1), corners.max(1)
    aside = abs(off) > np.pi / 4
    unit = float(np.median((high - low)[~aside if not aside.all() else aside, 1])) or 1.0
    if _right_to_left(lines):
        low[:, 0], high[:, 0] = -high[:, 0], -low[:, 0]
    pieces = [
        _Piece(line, left, right, top, bottom)
        for line, (left, top), (right, bottom) in zip(
            lines, (low / unit).tolist(), (high / unit).tolist(), strict=True
        )
    ]
    order = sorted(range(len(lines)), key=lambda i: _place(pieces[i]))
    return (
        [pieces[i] for i in order if not aside[i]],
        [pieces[i] for i in order if aside[i]],
    )


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.lexsort((weights, values))
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _right_to_left(lines: Sequence[pages.Line]) -> bool:
    directions = [unicodedata.bidirectional(letter) for line in lines for letter in line.text]
    return directions.count("R") + directions.count("AL") > directions.count("L")


def _place(piece: _Piece) -> tuple[float, float, float, float, str]:
    """Sort by height and then from left to right; the rest is for equal pieces' sake only."""
    return piece.middle, piece.left, piece.right, piece.bottom, piece.line.text


def _read(pieces: Sequence[_Piece]) -> Iterator[_Row]:
    """Go through pieces row by row, in reading order."""
    for zone, gutters in _zones(pieces):
        columns = _columns(zone, gutters)
        if len(columns) == 1 or _is_table(columns):
            yield from _rows(zone)
        else:
            for column in columns:
                yield from _read(column)


def _zones(pieces: Sequence[_Piece]) -> list[tuple[list[_Piece], list[_Gap]]]:
    """Join strips from the top down while a gutter runs through all of them, or through none."""
    zones: list[tuple[list[_Piece], list[_Gap]]] = []
    strips = _strips(pieces)
    apart = _apart(strips)
    for number, strip in enumerate(strips):
        zone, gutters = zones[-1] if zones else ([], [])
        gaps = _gaps(strip)
        free = [gap for gutter in gutters for gap in _free(gutter, strip)]
        if zone and number not in apart and (free or not (gutters or gaps)):
            zones[-1] = [*zone, *strip], free
        else:
            zones.append((strip, gaps))
    return zones


def _strips(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Part pieces wherever a level cut meets the core of none."""
    strips: list[list[_Piece]] = []
    reach = 0.0
    for piece in sorted(pieces, key=lambda piece: _core(piece)[0]):
        top, bottom = _core(piece)
        if strips and top <= reach:
            strips[-1].append(piece)
            reach = max(reach, bottom)
        else:
            strips.append([piece])
            reach = bottom
    return strips


def _core(piece: _Piece) -> _Gap:
    margin = _CORE * min(1.0, piece.bottom - piece.top)
    return piece.top + margin, piece.bottom - margin


def _apart(strips: Sequence[list[_Piece]]) -> set[int]:
    """Find the strips that follow a running head or are a foot: one row, far from the text."""
    return {
        number
        for number, outer in ((1, 0), (len(strips) - 1, -1))
        if 0 < number < len(strips)
        and len(_rows(strips[outer])) == 1
        and min(piece.top for piece in strips[number])
        > max(piece.bottom for piece in strips[number - 1]) + _APART
    }


def _edges(piece: _Piece) -> _Gap:
    margin = min(_DRAWN_WIDE, (piece.right - piece.left) / 2)
    return piece.left + margin, piece.right - margin


def _gaps(strip: Sequence[_Piece]) -> list[_Gap]:
    """Find the gutters between the pieces of a strip."""
    left = min(piece.left for piece in strip)
    right = max(piece.right for piece in strip)
    return [gap for gap in _free((left, right), strip) if left < gap[0] and gap[1] < right]


def _free(gap: _Gap, strip: Sequence[_Piece]) -> list[_Gap]:
    """Find what a strip leaves of a gutter."""
    free = []
    start, end = gap
    for left, right in sorted(_edges(piece) for piece in strip):
        if min(left, end) - start >= _GUTTER:
            free.append((start, min(left, end)))
        start = max(start, right)
    if end - start >= _GUTTER:
        free.append((start, end))
    return free


def _columns(zone: Sequence[_Piece], gutters: Sequence[_Gap]) -> list[list[_Piece]]:
    """Part a zone at its gutters."""
    borders = sorted((start + end) / 2 for start, end in gutters)
    columns: list[list[_Piece]] = [[] for _ in range(len(borders) + 1)]
    for piece in zone:
        columns[bisect.bisect(borders, (piece.left + piece.right) / 2)].append(piece)
    return [column for column in columns if column]


def _is_table(columns: Sequence[Sequence[_Piece]]) -> bool:
    """Tell rows of cells from columns of text: one is narrow, and level with the others.

    Two columns of about the same width may as well be verses or addresses, if no labels.
    """
    widths = [statistics.median(piece.right - piece.left for piece in each) for each in columns]
    fewest = min(columns, key=len)
    heights = sorted(piece.middle for each in columns if each is not fewest for piece in each)
    level = [_distance(heights, piece.middle) < _LEVEL for piece in fewest]
    if min(widths) > _CELL or sum(level) < _ALIGNED * len(level):
        return False
    alike = len(columns) == 2 and min(widths) > max(_LABEL, _ALIKE * max(widths))
    return not alike or any(_has_labels(column) for column in columns)


def _has_labels(column: Sequence[_Piece]) -> bool:
    """Tell whether most of it are words with a colon, or numbers."""
    texts = [piece.line.text.rstrip() for piece in column]
    labels = [text.endswith((":", "\uff1a")) or not any(map(str.isalpha, text)) for text in texts]
    return 2 * sum(labels) > len(labels)


def _distance(heights: Sequence[float], height: float) -> float:
    """Measure how far the nearest of sorted heights is."""
    place = bisect.bisect(heights, height)
    return min(abs(height - other) for other in heights[max(0, place - 1) : place + 1])


def _rows(pieces: Sequence[_Piece]) -> list[_Row]:
    """Put together what stands side by side."""
    rows: list[_Row] = []
    for piece in sorted(pieces, key=_place):
        row = next((row for row in reversed(rows[-3:]) if _beside(piece, row)), None)
        if row is None:
            rows.append([piece])
        else:
            row.append(piece)
    return [sorted(row, key=lambda piece: (piece.left, _place(piece))) for row in rows]


def _beside(piece: _Piece, row: _Row) -> bool:
    """Tell whether a piece continues a row, judged by the nearest one in it."""
    gaps = [max(piece.left - other.right, other.left - piece.right) for other in row]
    near = row[gaps.index(min(gaps))]
    shared = min(piece.bottom, near.bottom) - max(piece.top, near.top)
    height = min(piece.bottom - piece.top, near.bottom - near.top)
    return min(gaps) > -2 * _DRAWN_WIDE and shared > height / 2


def _blocks(rows: Sequence[_Row]) -> Iterator[int]:
    """Count blocks: a new one begins after a step up, aside, or further down than usual."""
    steps = [_step(upper, lower) for upper, lower in itertools.pairwise(rows)]
    usual = statistics.median([step for step in steps if step is not None] or [0.0])
    block = 0
    yield block
    for step in steps:
        if step is None or step > _BLOCK * usual:
            block += 1
        yield block


def _step(upper: _Row, lower: _Row) -> float | None:
    """Measure how far below a row another is; None where it is not."""
    step = lower[0].middle - upper[0].middle
    overlap = min(upper[-1].right, lower[-1].right) - max(upper[0].left, lower[0].left)
    return step if step > 0 and overlap > 0 else None
