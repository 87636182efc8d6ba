"""Lines for engines that read pages only: all lines of a page one below the other on a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pagewarden.reading import bidi, engine, pages
from pagewarden.reading.lines import readings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.reading.lines import crops

_MARGIN = 24  # pixels around each line
_WHITE = 255
_DPI = 300.0


def read(
    reader: engine.Engine, lines: Sequence[crops.Crop], hints: engine.Hints
) -> list[readings.Reading]:
    """Have a sheet read; what is found on it belongs to the line that is nearest in height."""
    if not lines:
        return []
    sheet, tops = _sheet([line.grey for line in lines])
    found = reader.recognise(engine.PageImage(sheet, _DPI), hints).lines
    middles = tops + np.array([line.pixels.shape[0] / 2 for line in lines])
    of_line: list[list[pages.Line]] = [[] for _ in lines]
    for each in found:
        box = pages.bounds(each.quad)
        of_line[int(np.abs(middles - (box.top + box.bottom) / 2).argmin())].append(each)
    return [_reading(each, line.pixels.shape[1]) for each, line in zip(of_line, lines, strict=True)]


def _sheet(lines: Sequence[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Put lines on white paper; gives the heights at which they begin, too."""
    heights = np.array([line.shape[0] + _MARGIN for line in lines])
    tops = np.cumsum(heights) - heights + _MARGIN
    width = max(line.shape[1] for line in lines) + 2 * _MARGIN
    sheet = np.full((int(heights.sum()) + _MARGIN, width), _WHITE, np.uint8)
    for top, line in zip(tops, lines, strict=True):
        sheet[top : top + line.shape[0], _MARGIN : _MARGIN + line.shape[1]] = line
    return sheet, tops.astype(np.float64)


def _reading(found: Sequence[pages.Line], width: int) -> readings.Reading:
    """Make one reading of what was found beside each other, in the order of its script."""
    leftwards = bidi.runs_leftwards("".join(line.text for line in found))
    beside = sorted(found, key=lambda line: pages.bounds(line.quad).left, reverse=leftwards)
    spans = [_span(word, width) for line in beside for word in _words(line)]
    return readings.Reading(tuple(spans))


def _words(line: pages.Line) -> Sequence[pages.Word]:
    return line.words or [pages.Word(line.text, line.quad, line.confidence)]


def _span(word: pages.Word, width: int) -> readings.Span:
    box = pages.bounds(word.quad)
    left, right = (min(max((x - _MARGIN) / width, 0.0), 1.0) for x in (box.left, box.right))
    return readings.Span(word.text, word.confidence, word.confidence, left, right)
