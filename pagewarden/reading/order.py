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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pagewarden.reading import pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pagewarden.reading import pages

_CORE = 0.25  # of the height is not counted at top and bottom where lines are side by side
_STAGGERED = 0.3  # in height share two lines of columns that are not level
_FEW = 3  # lines make a column of which none is level with one of the next
_DRAWN_WIDE = 0.25  # by so much detectors draw lines longer than they are, on either side
_GUTTER = 0.5  # the narrowest
_CELL = 8.0  # columns of text are wider than this, some of those of a table are not
_LABEL = 4.0  # labels are narrower than this, if anything
_ALIKE = 0.6  # of the width of another column is about the same width
_LEVEL = 0.35  # cells of one row are level with each other to within this
_ALIGNED = 0.8  # of the cells of a table's columns are level with another one
_APART = 1.5  # from the text stand a running head and a foot
_BLOCK = 1.4  # times the usual distance of lines is that between blocks

_Row = list[pieces.Piece]
_Strip = list[pieces.Piece]
_Gap = tuple[float, float]


@dataclass(slots=True)
class _Zone:
    """Strips, and the gutters that run through all of them."""

    strips: list[_Strip]
    gutters: list[_Gap]


def in_reading_order(lines: Sequence[pages.Line]) -> tuple[pages.Line, ...]:
    """Sort lines, of any slant and in any order, and number their blocks.

    Pieces of one printed line follow each other from left to right, and so do columns; both from
    right to left where most letters are Arabic or Hebrew. What runs up or down the margin of a
    page comes last.
    """
    if not lines:
        return ()
    level, aside = pieces.level(lines)
    rows = [*_read(level), *([piece] for piece in aside)]
    return tuple(
        replace(piece.line, block=block)
        for block, row in zip(_blocks(rows), rows, strict=True)
        for piece in row
    )


def _read(every: Sequence[pieces.Piece]) -> Iterator[_Row]:
    """Go through pieces row by row, in reading order."""
    for zone in _zones(every):
        columns = _columns(zone.strips, zone.gutters)
        if len(columns) == 1 or max(map(len, columns)) == 1 or _is_table(columns):
            yield from _rows(list(itertools.chain(*zone.strips)))
        else:
            for column in columns:
                yield from _read(column)


def _zones(every: Sequence[pieces.Piece]) -> list[_Zone]:
    """Join strips from the top down while a gutter runs through all of them, or through none."""
    zones: list[_Zone] = []
    strips = list(_strips(every))
    for strip in strips:
        gaps = _gaps(strip)
        if zones and not _stands_apart(zones[-1].strips, strip, last=strip is strips[-1]):
            zone = zones[-1]
            free = [gap for gutter in zone.gutters for gap in _free(gutter, strip)]
            if free or not (zone.gutters or gaps):
                zone.strips.append(strip)
                zone.gutters = free
                continue
            zones.append(_Zone([*_headings(zone, strip), strip], gaps))
        else:
            zones.append(_Zone([strip], gaps))
    return zones


def _stands_apart(zone: Sequence[_Strip], strip: _Strip, *, last: bool) -> bool:
    """Tell a running head from the text below it, and the last strip as a foot from that above."""
    outer = strip if last else zone[0]
    alone = (last or len(zone) == 1) and len(_rows(outer)) == 1
    return alone and _distance(zone[-1], strip) > _APART


def _headings(zone: _Zone, strip: _Strip) -> list[_Strip]:
    """Take from the end of columns what is in one of them only and nearer to what follows."""
    taken: list[_Strip] = []
    while (
        zone.gutters and len(zone.strips) > 1 and len(_columns(zone.strips[-1:], zone.gutters)) == 1
    ):
        above, heading = zone.strips[-2:]
        if _distance(above, heading) < max(1.0, _distance(heading, taken[0] if taken else strip)):
            break
        taken.insert(0, zone.strips.pop())
    return taken


def _distance(upper: _Strip, lower: _Strip) -> float:
    return min(piece.top for piece in lower) - max(piece.bottom for piece in upper)


def _strips(every: Sequence[pieces.Piece]) -> Iterator[_Strip]:
    """Part pieces wherever a level cut meets none that stand side by side."""
    for strip in _parted(every, _staggered):
        columns = _columns([strip], _gaps(strip))
        if min(map(len, columns)) >= _FEW:
            yield strip
        else:
            yield from _parted(strip, lambda *_: False)


def _parted(
    every: Sequence[pieces.Piece], joined: Callable[[pieces.Piece, pieces.Piece], bool]
) -> list[_Strip]:
    """Part pieces from top to bottom; those whose cores share a height are joined at any rate."""
    strips: list[_Strip] = []
    reach = 0.0
    for piece in sorted(every, key=lambda piece: _core(piece)[0]):
        top, bottom = _core(piece)
        if strips and (top <= reach or any(joined(other, piece) for other in strips[-1])):
            strips[-1].append(piece)
            reach = max(reach, bottom)
        else:
            strips.append([piece])
            reach = bottom
    return strips


def _staggered(one: pieces.Piece, other: pieces.Piece) -> bool:
    """Tell whether they are side by side, if at different heights, and not one below the other."""
    beside = one.right < other.left or other.right < one.left
    return beside and min(one.bottom, other.bottom) - max(one.top, other.top) > _STAGGERED


def _core(piece: pieces.Piece) -> _Gap:
    margin = _CORE * min(1.0, piece.bottom - piece.top)
    return piece.top + margin, piece.bottom - margin


def _edges(piece: pieces.Piece) -> _Gap:
    margin = min(_DRAWN_WIDE, (piece.right - piece.left) / 2)
    return piece.left + margin, piece.right - margin


def _gaps(strip: Sequence[pieces.Piece]) -> list[_Gap]:
    """Find the gutters between the pieces of a strip."""
    left = min(piece.left for piece in strip)
    right = max(piece.right for piece in strip)
    return _free((left, right), strip)


def _free(gap: _Gap, strip: Sequence[pieces.Piece]) -> list[_Gap]:
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


def _columns(strips: Sequence[_Strip], gutters: Sequence[_Gap]) -> list[list[pieces.Piece]]:
    """Part strips at gutters."""
    borders = sorted((start + end) / 2 for start, end in gutters)
    columns: list[list[pieces.Piece]] = [[] for _ in range(len(borders) + 1)]
    for piece in itertools.chain(*strips):
        columns[bisect.bisect(borders, (piece.left + piece.right) / 2)].append(piece)
    return [column for column in columns if column]


def _is_table(columns: Sequence[Sequence[pieces.Piece]]) -> bool:
    """Tell rows of cells from columns of text: one is narrow, and level with the others.

    Two columns of about the same width may as well be verses or addresses, if no labels.
    """
    widths = [statistics.median(piece.right - piece.left for piece in each) for each in columns]
    fewest = min(columns, key=len)
    heights = sorted(piece.middle for each in columns if each is not fewest for piece in each)
    level = [_nearest(heights, piece.middle) < _LEVEL for piece in fewest]
    if min(widths) > _CELL or sum(level) < _ALIGNED * len(level):
        return False
    alike = len(columns) == 2 and min(widths) > max(_LABEL, _ALIKE * max(widths))
    return not alike or any(_has_labels(column) for column in columns)


def _has_labels(column: Sequence[pieces.Piece]) -> bool:
    """Tell whether most of it are words with a colon, or numbers."""
    texts = [piece.line.text.rstrip() for piece in column]
    labels = [text.endswith((":", "\uff1a")) or not any(map(str.isalpha, text)) for text in texts]
    return 2 * sum(labels) > len(labels)


def _nearest(heights: Sequence[float], height: float) -> float:
    """Measure how far the nearest of sorted heights is."""
    place = bisect.bisect(heights, height)
    return min(abs(height - other) for other in heights[max(0, place - 1) : place + 1])


def _rows(every: Sequence[pieces.Piece]) -> list[_Row]:
    """Put together what stands side by side."""
    rows: list[_Row] = []
    for piece in sorted(every, key=lambda piece: piece.place):
        row = next((row for row in reversed(rows[-3:]) if _beside(piece, row)), None)
        if row is None:
            rows.append([piece])
        else:
            row.append(piece)
    return [sorted(row, key=lambda piece: (piece.left, piece.place)) for row in rows]


def _beside(piece: pieces.Piece, row: _Row) -> bool:
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
