"""What a person made of a page: a text, and the lines that agree with it.

Who corrects a page may have changed its lines one by one, or the text as a whole. Lines that are
still there keep their places; where their number changed, the new ones share the place of the old.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from typing import TYPE_CHECKING

from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SURE = 1.0
# Of a page that nobody measured: A4 at 150 dpi.
_UNMEASURED = (1240, 1754)
_DPI = 150.0
# Comparing goes with the square of this; longer pages are shared out as a whole.
_MOST_COMPARED = 2_000
_PAIRS_FOR_A_LINE = 4

Texts = list[tuple[str, int]]
"""Lines of a text, each with the number of its block."""


def text_of(lines: Sequence[pages.Line]) -> str:
    """Join lines as ReadPage.text does."""
    return pages.ReadPage(1, 0, 0, 0.0, pages.Source.PERSON, tuple(lines)).text


def corrected(page: pages.ReadPage, text: str) -> pages.ReadPage:
    """Give a page this text, with lines to it; one whose lines say so already stays as it is."""
    if text == page.text:
        return page
    size = (page.width, page.height) if page.width and page.height else _UNMEASURED
    return dataclasses.replace(
        page,
        width=size[0],
        height=size[1],
        dpi=page.dpi or _DPI,
        lines=fitted(text, page.lines, size),
        error=None,
    )


def fitted(
    text: str, lines: Sequence[pages.Line], size: tuple[int, int] = _UNMEASURED
) -> tuple[pages.Line, ...]:
    """Make lines that spell the text, at the places of those that there were."""
    wanted = split(text)
    old = [line for line in lines if line.text.strip()]
    if not old:
        whole = pages.Box(0, 0, *size).quad()
        return tuple(_shared(wanted, whole))
    if len(wanted) == len(old):
        return tuple(
            retyped(line, said, block) for line, (said, block) in zip(old, wanted, strict=True)
        )
    return tuple(_aligned(wanted, old))


def retyped(line: pages.Line, text: str, block: int | None = None) -> pages.Line:
    """Put another text into the place of a line; whoever typed it is sure."""
    block = line.block if block is None else block
    if text == line.text:
        return dataclasses.replace(line, block=block)
    return pages.Line(text, line.quad, SURE, (), block)


def split(text: str) -> Texts:
    """Take a text apart into lines and blocks, between which there are empty lines."""
    found: Texts = []
    block, ended = 0, False
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.strip():
            ended = bool(found)
            continue
        block, ended = block + ended, False
        found.append((line, block))
    return found


def _aligned(wanted: Texts, old: Sequence[pages.Line]) -> Iterator[pages.Line]:
    for old_from, old_to, new_from, new_to in _stretches(wanted, old):
        new, before = wanted[new_from:new_to], old[old_from:old_to]
        if len(new) == len(before):
            for (said, block), line in zip(new, before, strict=True):
                yield retyped(line, said, block)
        else:
            yield from _shared(new, _around(before))


def _stretches(wanted: Texts, old: Sequence[pages.Line]) -> list[list[int]]:
    """Pair the lines that belong together, old from and to, new from and to.

    A line that is new all by itself shares the place of the one before it, or else of the next.
    """
    texts = [line.text for line in old], [said for said, _ in wanted]
    if max(map(len, texts)) > _MOST_COMPARED or not is_comparable(*texts):
        return [[0, len(old), 0, len(wanted)]]
    found: list[list[int]] = []
    for kind, *ends in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if kind == "equal":
            shift = ends[2] - ends[0]
            found += [[i, i + 1, i + shift, i + shift + 1] for i in range(*ends[:2])]
        elif kind == "insert" and found:
            found[-1][3] = ends[3]
        elif kind != "insert":
            found.append(ends)
    if found:
        found[0][2] = 0
    return found


def is_comparable(one: Sequence[str], other: Sequence[str]) -> bool:
    """Tell whether difflib ends soon: of lines that are all the same it takes the cube."""
    counts = Counter(other)
    return sum(counts[line] for line in one) <= _PAIRS_FOR_A_LINE * (len(one) + len(other))


def _shared(wanted: Texts, place: pages.Quad) -> Iterator[pages.Line]:
    """Cut a place into as many stripes as there are lines."""
    top_left, top_right, bottom_right, bottom_left = place
    for count, (said, block) in enumerate(wanted):
        begin, end = count / len(wanted), (count + 1) / len(wanted)
        stripe = (
            _along(top_left, bottom_left, begin),
            _along(top_right, bottom_right, begin),
            _along(top_right, bottom_right, end),
            _along(top_left, bottom_left, end),
        )
        yield pages.Line(said, stripe, SURE, (), block)


def _around(lines: Sequence[pages.Line]) -> pages.Quad:
    """Give the place from the first line to the last, whichever way the page lies."""
    first, last = lines[0].quad, lines[-1].quad
    return first[0], first[1], last[2], last[3]


def _along(start: pages.Point, end: pages.Point, share: float) -> pages.Point:
    return pages.Point(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share)
