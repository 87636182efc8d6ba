"""Fit a person's corrected text to the lines of a page.

A correction may change single lines, or the text as a whole. Unchanged lines keep their positions;
where the number of lines changed, the new lines share the area of the old ones.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from typing import TYPE_CHECKING

from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PERSON_CONFIDENCE = 1.0
# Size of a page whose size is unknown: A4 at 150 dpi.
_DEFAULT_SIZE = (1240, 1754)
_DEFAULT_DPI = 150.0
# Comparing takes quadratic time; the lines of longer pages are not compared.
_MAX_COMPARED_LINES = 2_000
_MAX_PAIRS_PER_LINE = 4

TextLines = list[tuple[str, int]]
"""Text lines, each with its block number."""


def join_lines(lines: Sequence[pages.Line]) -> str:
    """Join lines as ReadPage.text does."""
    return pages.ReadPage(1, 0, 0, 0.0, pages.TextSource.PERSON, tuple(lines)).text


def correct_page(page: pages.ReadPage, text: str) -> pages.ReadPage:
    """Return a page with this text and lines that spell it."""
    if text == page.text:
        return page
    size = (page.width, page.height) if page.width and page.height else _DEFAULT_SIZE
    return dataclasses.replace(
        page,
        width=size[0],
        height=size[1],
        dpi=page.dpi or _DEFAULT_DPI,
        lines=fit_text(text, page.lines, size),
        error=None,
    )


def fit_text(
    text: str, lines: Sequence[pages.Line], size: tuple[int, int] = _DEFAULT_SIZE
) -> tuple[pages.Line, ...]:
    """Return lines that spell the text, at the positions of the given ones."""
    new = split_text(text)
    old = [line for line in lines if line.text.strip()]
    if not old:
        whole_page = pages.Box(0, 0, *size).quad()
        return tuple(_distribute_lines(new, whole_page))
    if len(new) == len(old):
        return tuple(
            retype_line(line, new_text, block)
            for line, (new_text, block) in zip(old, new, strict=True)
        )
    return tuple(_align_lines(new, old))


def retype_line(line: pages.Line, text: str, block: int | None = None) -> pages.Line:
    """Replace the text of a line; typed text has full confidence and no words."""
    block = line.block if block is None else block
    if text == line.text:
        return dataclasses.replace(line, block=block)
    return pages.Line(text, line.quad, PERSON_CONFIDENCE, (), block)


def split_text(text: str) -> TextLines:
    """Split a text into lines and blocks; empty lines separate blocks."""
    found: TextLines = []
    block, ended = 0, False
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.strip():
            ended = bool(found)
            continue
        block, ended = block + ended, False
        found.append((line, block))
    return found


def _align_lines(new: TextLines, old: Sequence[pages.Line]) -> Iterator[pages.Line]:
    for old_from, old_to, new_from, new_to in _match_line_ranges(new, old):
        new_lines, old_lines = new[new_from:new_to], old[old_from:old_to]
        if len(new_lines) == len(old_lines):
            for (text, block), line in zip(new_lines, old_lines, strict=True):
                yield retype_line(line, text, block)
        else:
            yield from _distribute_lines(new_lines, _get_enclosing_quad(old_lines))


def _match_line_ranges(new: TextLines, old: Sequence[pages.Line]) -> list[list[int]]:
    """Match ranges of lines: start and end in the old ones, start and end in the new ones.

    Inserted lines are added to the range before them, or else to the next one.
    """
    texts = [line.text for line in old], [text for text, _ in new]
    if max(map(len, texts)) > _MAX_COMPARED_LINES or not is_diff_fast(*texts):
        return [[0, len(old), 0, len(new)]]
    found: list[list[int]] = []
    for kind, *ends in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if kind == "equal":
            offset = ends[2] - ends[0]
            found += [[i, i + 1, i + offset, i + offset + 1] for i in range(*ends[:2])]
        elif kind == "insert" and found:
            found[-1][3] = ends[3]
        elif kind != "insert":
            found.append(ends)
    if found:
        found[0][2] = 0
    return found


def is_diff_fast(old: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether difflib is fast enough: it takes cubic time for lines that are all equal."""
    counts = Counter(new)
    return sum(counts[line] for line in old) <= _MAX_PAIRS_PER_LINE * (len(old) + len(new))


def _distribute_lines(new: TextLines, area: pages.Quad) -> Iterator[pages.Line]:
    """Distribute lines evenly over an area."""
    top_left, top_right, bottom_right, bottom_left = area
    for count, (text, block) in enumerate(new):
        begin, end = count / len(new), (count + 1) / len(new)
        quad = (
            _interpolate(top_left, bottom_left, begin),
            _interpolate(top_right, bottom_right, begin),
            _interpolate(top_right, bottom_right, end),
            _interpolate(top_left, bottom_left, end),
        )
        yield pages.Line(text, quad, PERSON_CONFIDENCE, (), block)


def _get_enclosing_quad(lines: Sequence[pages.Line]) -> pages.Quad:
    """Return the area from the first line to the last, for any page orientation."""
    first, last = lines[0].quad, lines[-1].quad
    return first[0], first[1], last[2], last[3]


def _interpolate(start: pages.Point, end: pages.Point, fraction: float) -> pages.Point:
    return pages.Point(
        start.x + (end.x - start.x) * fraction, start.y + (end.y - start.y) * fraction
    )
