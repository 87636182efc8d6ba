"""Where on the picture a part of a text stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def of_part(line: pages.Line, start: int, end: int) -> pages.Quad:
    """Find the words that have text[start:end] of a line; the line where it has no words."""
    if start <= 0 and end >= len(line.text):
        return line.quad
    touched = [quad for first, last, quad in _words(line) if first < end and last > start]
    return around(touched) if touched else line.quad


def around(quads: Sequence[pages.Quad]) -> pages.Quad:
    """Find what surrounds them all; one alone is left as it is, also when it is not upright."""
    if len(quads) == 1:
        return quads[0]
    boxes = [pages.bounds(quad) for quad in quads]
    return pages.Box(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    ).quad()


def _words(line: pages.Line) -> Iterator[tuple[int, int, pages.Quad]]:
    end = 0
    for word in line.words:
        start = line.text.find(word.text, end)
        if start >= 0:
            end = start + len(word.text)
            yield start, end, word.quad
