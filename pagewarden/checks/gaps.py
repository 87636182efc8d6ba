"""Places in a line where something stands that no engine reads as text, such as boxes.

Engines find where a line is, and leave out what they cannot read of it. The line is then wider
than its letters need, and so is the word beside that place.
"""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

from pagewarden.checks import comparing
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FEWEST_LINES = 3
# How many times as wide as usual the letters of a line are, and those of a word; and by how many
# heights of the line the word is too wide.
_LINE_TIMES, _WORD_TIMES, _HEIGHTS = 1.2, 1.8, 1.4


def find(lines: Sequence[pages.Line]) -> Iterator[tuple[pages.Line, pages.Word]]:
    """Find lines with such a place, each with the word beside it; capitals are wide anyway."""
    widths = [_letter(line) / _height(line) for line in lines]
    if len(lines) < FEWEST_LINES:
        return
    usual = statistics.median(widths)
    for line, width in zip(lines, widths, strict=True):
        if width >= _LINE_TIMES * usual and not line.text.isupper():
            word = next(_stretched(line), None)
            if word is not None:
                yield line, word


def _stretched(line: pages.Line) -> Iterator[pages.Word]:
    """Find words whose letters are much wider than those of the others."""
    if not _is_in_order([pages.bounds(word.quad) for word in line.words]):
        return
    widths = [_letter(word) for word in line.words]
    for index, word in enumerate(line.words):
        usual = statistics.median_low(widths[:index] + widths[index + 1 :])
        spare = (widths[index] - usual) * len(comparing.graphemes(word.text))
        if widths[index] > _WORD_TIMES * usual and spare > _HEIGHTS * _height(line):
            yield word


def _letter(text: pages.Line | pages.Word) -> float:
    box = pages.bounds(text.quad)
    return (box.right - box.left) / max(1, len(comparing.graphemes(text.text)))


def _height(line: pages.Line) -> float:
    box = pages.bounds(line.quad)
    return max(1.0, box.bottom - box.top)


def _is_in_order(boxes: Sequence[pages.Box]) -> bool:
    """Tell whether there are several words, one beside the other in either direction.

    Where an engine lost track of which word stands where, nothing follows from how wide one is.
    """
    ordered = sorted(boxes)
    apart = all(one.right <= other.left + 2 for one, other in itertools.pairwise(ordered))
    return len(boxes) > 1 and apart and list(boxes) in (ordered, ordered[::-1])
