r"""Pages as every format can carry them, so that all formats say the same.

In a tidied page white space of any kind is one space, what XML cannot carry (control characters,
lone surrogates) is U+FFFD, no line is empty, and the words of every line spell its text.
"""

from __future__ import annotations

import dataclasses
import re
from itertools import groupby
from typing import TYPE_CHECKING

from pagewarden.reading import bidi, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_UNCARRIABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """Fold white space and replace what XML cannot carry."""
    return _UNCARRIABLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def tidied(page: pages.ReadPage) -> pages.ReadPage:
    """Give the page in the form that is exported."""
    return dataclasses.replace(
        page,
        lines=tuple(_line(line) for line in page.lines if clean(line.text)),
        engine=clean(page.engine),
        error=None if page.error is None else clean(page.error),
    )


def blocks(page: pages.ReadPage) -> Iterator[list[pages.Line]]:
    """Give the lines block by block, as ReadPage.text separates them."""
    for _, lines in groupby(page.lines, key=lambda line: line.block):
        yield list(lines)


def spaced(line: pages.Line) -> Iterator[tuple[bool, pages.Word]]:
    """Give the words of a tidied line, each with whether a space stands before it."""
    end = 0
    for word in line.words:
        start = line.text.index(word.text, end)
        yield start > end, word
        end = start + len(word.text)


def _line(line: pages.Line) -> pages.Line:
    text = clean(line.text)
    return dataclasses.replace(line, text=text, words=tuple(_words(text, line)))


def _words(text: str, line: pages.Line) -> Sequence[pages.Word]:
    """Find words that spell the text: the reader's own, or where text was corrected, new ones."""
    words = [word for word in map(_word, line.words) if word.text]
    if _spell(words, text):
        return words
    parts = text.split(" ")
    if len(parts) == len(words):
        return [
            dataclasses.replace(word, text=part) for word, part in zip(words, parts, strict=True)
        ]
    return _cut(parts, line)


def _word(word: pages.Word) -> pages.Word:
    text = clean(word.text)
    return word if text == word.text else dataclasses.replace(word, text=text)


def _spell(words: Sequence[pages.Word], text: str) -> bool:
    for word in words:
        text = text.removeprefix(" ")
        if not text.startswith(word.text):
            return False
        text = text.removeprefix(word.text)
    return not text


def _cut(parts: Sequence[str], line: pages.Line) -> Sequence[pages.Word]:
    """Guess where the words stand: each letter of the line is taken to be equally wide."""
    letters = sum(map(len, parts)) + len(parts) - 1
    backwards = bidi.runs_leftwards("".join(parts))
    words, start = [], 0
    for part in parts:
        begin, end = start / letters, (start + len(part)) / letters
        if backwards:
            begin, end = 1 - end, 1 - begin
        words.append(pages.Word(part, _between(line.quad, begin, end), line.confidence))
        start += len(part) + 1
    return words


def _between(quad: pages.Quad, begin: float, end: float) -> pages.Quad:
    top_left, top_right, bottom_right, bottom_left = quad
    return (
        along(top_left, top_right, begin),
        along(top_left, top_right, end),
        along(bottom_left, bottom_right, end),
        along(bottom_left, bottom_right, begin),
    )


def along(start: pages.Point, end: pages.Point, share: float) -> pages.Point:
    """Find the point that lies a share of the way from one point to another."""
    return pages.Point(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share)
