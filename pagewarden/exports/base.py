"""Shared by all exporters: Document, clean pages, and atomic file replacement.

Pages are cleaned so that all formats have the same text: whitespace is a single space, characters
invalid in XML (control characters, lone surrogates) are U+FFFD, no line is empty, and the words of
a line spell its text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import secrets
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.ocr import bidi, pages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Document:
    """A document to export: its name, its original, and the languages it was read in.

    languages are ISO 639-3 codes, most likely first; empty if unknown. password opens a protected
    PDF.
    """

    name: str
    source: Path
    languages: tuple[str, ...] = ()
    password: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """An export format.

    write: writes clean pages one at a time. order: place in menus; formats of the same order are
    sorted by name. needs_original: it parses the original, which is only allowed in the sandbox.
    preload: modules that are slow to import, which the sandbox loads at its start.
    """

    suffix: str
    media_type: str
    write: Callable[[BinaryIO, Iterable[pages.ReadPage], Document], None]
    order: int = 100
    needs_original: bool = False
    preload: tuple[str, ...] = ()


@contextlib.contextmanager
def replace_atomically(target: Path, *, source: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces the target once it is complete."""
    if target.exists() and source.exists() and target.samefile(source):
        raise errors.SettingsError(
            f"{target} is the original file; choose another file or folder for the export"
        )
    unfinished = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("xb") as out:
            yield out
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


_UNREPRESENTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean_text(text: str) -> str:
    """Collapse whitespace and replace characters that are invalid in XML."""
    return _UNREPRESENTABLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


def clean_page(page: pages.ReadPage) -> pages.ReadPage:
    """Return a page with clean text and without empty lines."""
    return dataclasses.replace(
        page,
        lines=tuple(_clean_line(line) for line in page.lines if clean_text(line.text)),
        engine=clean_text(page.engine),
        error=None if page.error is None else clean_text(page.error),
    )


def split_blocks(page: pages.ReadPage) -> Iterator[list[pages.Line]]:
    """Yield the lines of each block, as ReadPage.text separates them."""
    for _, lines in groupby(page.lines, key=lambda line: line.block):
        yield list(lines)


def iterate_words(line: pages.Line) -> Iterator[tuple[bool, pages.Word]]:
    """Yield the words of a clean line, each with whether a space precedes it."""
    end = 0
    for word in line.words:
        start = line.text.index(word.text, end)
        yield start > end, word
        end = start + len(word.text)


def _clean_line(line: pages.Line) -> pages.Line:
    text = clean_text(line.text)
    return dataclasses.replace(line, text=text, words=tuple(_clean_words(text, line)))


def _clean_words(text: str, line: pages.Line) -> Sequence[pages.Word]:
    """Return words that spell the text: the recognised ones, or new ones for corrected text."""
    words = [word for word in map(_clean_word, line.words) if word.text]
    if _words_spell_text(words, text):
        return words
    parts = text.split(" ")
    if len(parts) == len(words):
        return [
            dataclasses.replace(word, text=part) for word, part in zip(words, parts, strict=True)
        ]
    return _estimate_words(parts, line)


def _clean_word(word: pages.Word) -> pages.Word:
    text = clean_text(word.text)
    return word if text == word.text else dataclasses.replace(word, text=text)


def _words_spell_text(words: Sequence[pages.Word], text: str) -> bool:
    for word in words:
        text = text.removeprefix(" ")
        if not text.startswith(word.text):
            return False
        text = text.removeprefix(word.text)
    return not text


def _estimate_words(parts: Sequence[str], line: pages.Line) -> Sequence[pages.Word]:
    """Estimate word positions, assuming that all letters of the line are equally wide."""
    letters = sum(map(len, parts)) + len(parts) - 1
    right_to_left = bidi.is_right_to_left("".join(parts))
    words, start = [], 0
    for part in parts:
        begin, end = start / letters, (start + len(part)) / letters
        if right_to_left:
            begin, end = 1 - end, 1 - begin
        words.append(pages.Word(part, _slice_quad(line.quad, begin, end), line.confidence))
        start += len(part) + 1
    return words


def _slice_quad(quad: pages.Quad, start: float, end: float) -> pages.Quad:
    top_left, top_right, bottom_right, bottom_left = quad
    return (
        interpolate(top_left, top_right, start),
        interpolate(top_left, top_right, end),
        interpolate(bottom_left, bottom_right, end),
        interpolate(bottom_left, bottom_right, start),
    )


def interpolate(start: pages.Point, end: pages.Point, fraction: float) -> pages.Point:
    """Return the point at a share of the distance between two points."""
    return pages.Point(
        start.x + (end.x - start.x) * fraction, start.y + (end.y - start.y) * fraction
    )
