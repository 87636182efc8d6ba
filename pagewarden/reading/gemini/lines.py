"""From what the service found to lines of the page image."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from pagewarden.reading import bidi, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagewarden.reading.gemini import answers

SCALE = 1000  # the service counts in thousandths of each side

# What the model says of its own confidence means nothing, so all lines get the same: above the
# threshold of review (0.8), and less than the dashboard shows as sure (0.85).
CONFIDENCE = 0.82

# A line whose place is a guess is no surer than this.
UNPLACED_CONFIDENCE = 0.5


def on_page(found: Sequence[answers.FoundLine], width: int, height: int) -> tuple[pages.Line, ...]:
    """Place each line; one without a sound box gets a strip of the page by its turn."""
    lines = []
    for turn, line in enumerate(found):
        text = _clean(line.text)
        if not text:
            continue
        box = _box(line.box_2d)
        confidence = pages.UNREADABLE_CONFIDENCE if pages.UNREADABLE in text else CONFIDENCE
        if box is None:
            box = pages.Box(0, SCALE * turn / len(found), SCALE, SCALE * (turn + 1) / len(found))
            confidence = min(confidence, UNPLACED_CONFIDENCE)
        lines.append(_line(text, _scaled(box, width / SCALE, height / SCALE), confidence))
    return tuple(lines)


def _clean(text: str) -> str:
    """Keep it one line, and free of control characters, which no export and no table can hold."""
    one_line = " ".join(text.split())
    return "".join(char for char in one_line if unicodedata.category(char) != "Cc")


def _box(box_2d: Sequence[float] | None) -> pages.Box | None:
    if box_2d is None or len(box_2d) != 4 or not all(0 <= side <= SCALE for side in box_2d):
        return None
    top, left, bottom, right = box_2d
    return pages.Box(left, top, right, bottom) if left < right and top < bottom else None


def _scaled(box: pages.Box, by_x: float, by_y: float) -> pages.Box:
    return pages.Box(box.left * by_x, box.top * by_y, box.right * by_x, box.bottom * by_y)


def _line(text: str, box: pages.Box, confidence: float) -> pages.Line:
    words = tuple(pages.Word(word, place.quad(), confidence) for word, place in _words(text, box))
    return pages.Line(text, box.quad(), confidence, words)


def _words(text: str, box: pages.Box) -> Iterator[tuple[str, pages.Box]]:
    """Share the line's box out by characters, from the side where its script begins."""
    step = (box.right - box.left) / len(text)
    for match in re.finditer(r"\S+", text):
        begin, end = match.start() * step, match.end() * step
        if bidi.runs_leftwards(text):
            yield match[0], box._replace(left=box.right - end, right=box.right - begin)
        else:
            yield match[0], box._replace(left=box.left + begin, right=box.left + end)
