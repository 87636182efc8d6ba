"""Reading order: line boxes, zones, columns, tables, blocks.

Lines become boxes on a level page. The page is cut from top to bottom into strips of boxes side by
side, and consecutive strips with a common gutter form a zone. A zone with a gutter has columns,
read one after the other, or a table, read row by row; a zone without a gutter is read line by line.

The unit of length is the median line height of the page, so that resolution does not matter.
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
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from pagewarden.ocr import pages

_DIGITS = 6  # decimals of lengths; smaller differences do not decide the order
_TALL = 1.8  # a taller box, such as a drop cap, belongs to the first line beside it


@dataclass(frozen=True, slots=True)
class LineBox:
    """The box of a line; middle is the vertical position at which it is read.

    The unit of length is the median line height.
    """

    line: pages.Line
    left: float
    right: float
    top: float
    bottom: float
    middle: float

    @property
    def sort_key(self) -> tuple[float, float, float, float]:
        """Sort from top to bottom, then from left to right; the rest breaks ties."""
        return self.middle, self.left, self.right, self.bottom


def make_level_boxes(lines: Sequence[pages.Line]) -> tuple[list[LineBox], list[LineBox]]:
    """Return the boxes on a page rotated to make most text level, and those that run otherwise.

    If most letters are Arabic or Hebrew the page is also mirrored, so that the order is always from
    left to right. The order of the input does not matter.
    """
    lines = sorted(lines, key=lambda line: (line.quad, line.text, line.confidence))
    low, high, is_aside = _level_quads(np.array([line.quad for line in lines], np.float64))
    unit = float(np.median((high - low)[is_aside == is_aside.all(), 1])) or 1.0
    if _is_right_to_left(lines):
        low[:, 0], high[:, 0] = -high[:, 0], -low[:, 0]
    # Rounded, so that the order does not depend on the resolution.
    low, high = (((edge - low.min(0)) / unit).round(_DIGITS) for edge in (low, high))
    boxes = [
        LineBox(
            line,
            left,
            right,
            top,
            bottom,
            round(top + _compute_reading_depth(bottom - top), _DIGITS),
        )
        for line, (left, top), (right, bottom) in zip(
            lines, low.tolist(), high.tolist(), strict=True
        )
    ]
    return (
        [box for box, aside in zip(boxes, is_aside, strict=True) if not aside],
        [box for box, aside in zip(boxes, is_aside, strict=True) if aside],
    )


def _level_quads(
    quads: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the corners of the boxes on the level page, and which of them run another way."""
    along = quads[:, 1] - quads[:, 0]
    mean = np.arctan2(*along.sum(0)[::-1])
    slants = (np.arctan2(along[:, 1], along[:, 0]) - mean + np.pi) % (2 * np.pi) - np.pi
    median = _compute_weighted_median(slants, np.hypot(along[:, 0], along[:, 1]))
    cos, sin = np.cos(mean + median), np.sin(mean + median)
    corners = quads @ np.array(((cos, -sin), (sin, cos)))
    return corners.min(1), corners.max(1), abs(slants - median) > np.pi / 4


def _compute_weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.lexsort((weights, values))
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _is_right_to_left(lines: Sequence[pages.Line]) -> bool:
    directions = [unicodedata.bidirectional(letter) for line in lines for letter in line.text]
    return directions.count("R") + directions.count("AL") > directions.count("L")


def _compute_reading_depth(height: float) -> float:
    """Return how far below its top a box is read."""
    return 0.5 if height > _TALL else height / 2


_CORE_MARGIN = 0.25  # share of the height ignored at top and bottom to find boxes side by side
_MIN_STAGGERED_OVERLAP = 0.3  # in height, of two lines of columns that are not level
_MIN_STAGGERED_LINES = 3  # of a column that is not level with the next one
_DETECTION_MARGIN = 0.25  # by which detectors extend lines, on either side
_MIN_GUTTER = 0.5
_MAX_CELL = 8.0  # a wider column is text; some columns of a table are narrower
_MAX_LABEL = 4.0  # the width of a column of labels
_MIN_WIDTH_RATIO = 0.6  # of two columns of about the same width
_LEVEL_TOLERANCE = 0.35  # vertical distance of cells of the same row
_MIN_ALIGNED_SHARE = 0.8  # of the cells of a table that are level with another one
_MIN_HEADER_DISTANCE = 1.5  # of page headers and footers from the text
_BLOCK_STEP = 1.4  # relative to the median line distance; a larger step begins a block

_Row = list[LineBox]
_Strip = list[LineBox]
_Interval = tuple[float, float]


@dataclass(slots=True)
class _Zone:
    """Strips, and the gutters that they have in common."""

    strips: list[_Strip]
    gutters: list[_Interval]


def sort_in_reading_order(lines: Sequence[pages.Line]) -> tuple[pages.Line, ...]:
    """Sort lines, of any slant and in any order, and number their blocks.

    Parts of a printed line are sorted from left to right, and so are columns; from right to left if
    most letters are Arabic or Hebrew. Text that runs up or down the page comes last.
    """
    if not lines:
        return ()
    level, aside = make_level_boxes(lines)
    rows = [*_sort_rows(level), *([box] for box in aside)]
    return tuple(
        replace(box.line, block=block)
        for block, row in zip(_number_blocks(rows), rows, strict=True)
        for box in row
    )


def _sort_rows(boxes: Sequence[LineBox]) -> Iterator[_Row]:
    """Yield the rows of boxes in reading order."""
    for zone in _find_zones(boxes):
        columns = _split_columns(zone.strips, zone.gutters)
        if len(columns) == 1 or max(map(len, columns)) == 1 or _is_table(columns):
            yield from _make_rows(list(itertools.chain(*zone.strips)))
        else:
            for column in columns:
                yield from _sort_rows(column)


def _find_zones(boxes: Sequence[LineBox]) -> list[_Zone]:
    """Join strips from top to bottom while they have a common gutter, or none of them has any."""
    zones: list[_Zone] = []
    strips = list(_make_strips(boxes))
    for strip in strips:
        gaps = _find_gaps(strip)
        if zones and not _is_header_or_footer(zones[-1].strips, strip, last=strip is strips[-1]):
            zone = zones[-1]
            free = [gap for gutter in zone.gutters for gap in _subtract_strip(gutter, strip)]
            if free or not (zone.gutters or gaps):
                zone.strips.append(strip)
                zone.gutters = free
                continue
            zones.append(_Zone([*_pop_trailing_headings(zone, strip), strip], gaps))
        else:
            zones.append(_Zone([strip], gaps))
    return zones


def _is_header_or_footer(zone: Sequence[_Strip], strip: _Strip, *, last: bool) -> bool:
    """Tell whether the zone is a page header above the strip, or the last strip is a footer."""
    outer = strip if last else zone[0]
    alone = (last or len(zone) == 1) and len(_make_rows(outer)) == 1
    return alone and _measure_distance(zone[-1], strip) > _MIN_HEADER_DISTANCE


def _pop_trailing_headings(zone: _Zone, strip: _Strip) -> list[_Strip]:
    """Remove strips from the end of a zone that are in one column only and nearer to `strip`."""
    headings: list[_Strip] = []
    while (
        zone.gutters
        and len(zone.strips) > 1
        and len(_split_columns(zone.strips[-1:], zone.gutters)) == 1
    ):
        above, heading = zone.strips[-2:]
        below = headings[0] if headings else strip
        if _measure_distance(above, heading) < max(1.0, _measure_distance(heading, below)):
            break
        headings.insert(0, zone.strips.pop())
    return headings


def _measure_distance(upper: _Strip, lower: _Strip) -> float:
    return min(box.top for box in lower) - max(box.bottom for box in upper)


def _make_strips(boxes: Sequence[LineBox]) -> Iterator[_Strip]:
    """Split boxes into strips by horizontal cuts that cross no boxes side by side."""
    for strip in _split_vertically(boxes, _are_side_by_side):
        columns = _split_columns([strip], _find_gaps(strip))
        if min(map(len, columns)) >= _MIN_STAGGERED_LINES:
            yield strip
        else:
            yield from _split_vertically(strip, lambda *_: False)


def _split_vertically(
    boxes: Sequence[LineBox], are_joined: Callable[[LineBox, LineBox], bool]
) -> list[_Strip]:
    """Split boxes from top to bottom; those with overlapping cores are always joined."""
    strips: list[_Strip] = []
    reach = 0.0
    for box in sorted(boxes, key=lambda box: _get_core_interval(box)[0]):
        top, bottom = _get_core_interval(box)
        if strips and (top <= reach or any(are_joined(other, box) for other in strips[-1])):
            strips[-1].append(box)
            reach = max(reach, bottom)
        else:
            strips.append([box])
            reach = bottom
    return strips


def _are_side_by_side(one: LineBox, other: LineBox) -> bool:
    """Tell whether two boxes are side by side, even if they are not level."""
    beside = one.right < other.left or other.right < one.left
    overlap = min(one.bottom, other.bottom) - max(one.top, other.top)
    return beside and overlap > _MIN_STAGGERED_OVERLAP


def _get_core_interval(box: LineBox) -> _Interval:
    margin = _CORE_MARGIN * min(1.0, box.bottom - box.top)
    return box.top + margin, box.bottom - margin


def _get_edge_interval(box: LineBox) -> _Interval:
    margin = min(_DETECTION_MARGIN, (box.right - box.left) / 2)
    return box.left + margin, box.right - margin


def _find_gaps(strip: Sequence[LineBox]) -> list[_Interval]:
    """Find the gutters between the boxes of a strip."""
    left = min(box.left for box in strip)
    right = max(box.right for box in strip)
    return _subtract_strip((left, right), strip)


def _subtract_strip(gap: _Interval, strip: Sequence[LineBox]) -> list[_Interval]:
    """Return the parts of a gutter that a strip leaves free."""
    free = []
    start, end = gap
    for left, right in sorted(_get_edge_interval(box) for box in strip):
        if min(left, end) - start >= _MIN_GUTTER:
            free.append((start, min(left, end)))
        start = max(start, right)
    if end - start >= _MIN_GUTTER:
        free.append((start, end))
    return free


def _split_columns(strips: Sequence[_Strip], gutters: Sequence[_Interval]) -> list[list[LineBox]]:
    """Split strips at gutters."""
    borders = sorted((start + end) / 2 for start, end in gutters)
    columns: list[list[LineBox]] = [[] for _ in range(len(borders) + 1)]
    for box in itertools.chain(*strips):
        columns[bisect.bisect(borders, (box.left + box.right) / 2)].append(box)
    return [column for column in columns if column]


def _is_table(columns: Sequence[Sequence[LineBox]]) -> bool:
    """Tell a table from columns of text: one column is narrow, and level with the others.

    Two columns of about the same width without labels may be verses or addresses.
    """
    widths = [statistics.median(box.right - box.left for box in column) for column in columns]
    fewest = min(columns, key=len)
    heights = sorted(box.middle for column in columns if column is not fewest for box in column)
    level = [_find_nearest_distance(heights, box.middle) < _LEVEL_TOLERANCE for box in fewest]
    if min(widths) > _MAX_CELL or sum(level) < _MIN_ALIGNED_SHARE * len(level):
        return False
    alike = len(columns) == 2 and min(widths) > max(_MAX_LABEL, _MIN_WIDTH_RATIO * max(widths))
    return not alike or any(_has_labels(column) for column in columns)


def _has_labels(column: Sequence[LineBox]) -> bool:
    """Tell whether most texts of a column end with a colon or have no letters."""
    texts = [box.line.text.rstrip() for box in column]
    labels = [text.endswith((":", "\uff1a")) or not any(map(str.isalpha, text)) for text in texts]
    return 2 * sum(labels) > len(labels)


def _find_nearest_distance(heights: Sequence[float], height: float) -> float:
    """Return the distance to the nearest of sorted heights."""
    index = bisect.bisect(heights, height)
    return min(abs(height - other) for other in heights[max(0, index - 1) : index + 1])


def _make_rows(boxes: Sequence[LineBox]) -> list[_Row]:
    """Join boxes side by side into rows."""
    rows: list[_Row] = []
    for box in sorted(boxes, key=lambda box: box.sort_key):
        row = next((row for row in reversed(rows[-3:]) if _is_same_row(box, row)), None)
        if row is None:
            rows.append([box])
        else:
            row.append(box)
    return [sorted(row, key=lambda box: (box.left, box.sort_key)) for row in rows]


def _is_same_row(box: LineBox, row: _Row) -> bool:
    """Tell whether a box continues a row, by comparison with the nearest box of the row."""
    gaps = [max(box.left - other.right, other.left - box.right) for other in row]
    near = row[gaps.index(min(gaps))]
    shared = min(box.bottom, near.bottom) - max(box.top, near.top)
    height = min(box.bottom - box.top, near.bottom - near.top)
    return min(gaps) > -2 * _DETECTION_MARGIN and shared > height / 2


def _number_blocks(rows: Sequence[_Row]) -> Iterator[int]:
    """Yield the block of each row; a block begins after a step up, sideways, or far down."""
    steps = [_measure_step(upper, lower) for upper, lower in itertools.pairwise(rows)]
    median = statistics.median([step for step in steps if step is not None] or [0.0])
    block = 0
    yield block
    for step in steps:
        if step is None or step > _BLOCK_STEP * median:
            block += 1
        yield block


def _measure_step(upper: _Row, lower: _Row) -> float | None:
    """Return how far the second row is below the first; None if it is not below."""
    step = lower[0].middle - upper[0].middle
    overlap = min(upper[-1].right, lower[-1].right) - max(upper[0].left, lower[0].left)
    return step if step > 0 and overlap > 0 else None
