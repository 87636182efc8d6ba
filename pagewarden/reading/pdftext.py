"""The text a PDF page carries: PDFium's characters, made into words and lines with quads.

PDFium's own blanks and line ends are hints only: it takes the whole page to run in one direction,
so sideways text falls apart into letters. Here gaps are measured along the text they are in.
"""

from __future__ import annotations

import itertools
import operator
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it has no stubs
import pypdfium2.raw as pdfium_c  # type: ignore[import-untyped]

from pagewarden.reading import bidi, logical, pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Indices = NDArray[np.int64]

# In heights of the text; these agree best with pdftotext on born-digital PDFs.
_WORD_GAP = 0.05  # where PDFium guesses that there is a blank; it knows letterspaced text
_COLUMN_GAP = 2.0
_LEAP_BACK = -1.5
_OFF_LINE = 0.5

_UNMAPPED_SAMPLE = 100

_BLANKS = (*(code for code in range(0x3001) if chr(code).isspace()), 0x200B, 0xFEFF)
_HYPHEN_AT_LINE_END = 0x02  # PDFium's mark for what people, and poppler, see as a hyphen


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a page but for blanks, in PDFium's order; coordinates are pixels.

    boxes are left, top, right, bottom; directions are unit vectors along the text; blank tells of
    each character whether PDFium sees a blank, and really whether the file has one, before it.
    unmapped is the share of characters for which the file does not say what they mean.
    """

    codes: Indices
    boxes: Numbers
    directions: Numbers
    blank: Flags
    really: Flags
    unmapped: float = 0.0

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, chosen: Flags | Indices) -> Glyphs:
        return Glyphs(
            self.codes[chosen],
            self.boxes[chosen],
            self.directions[chosen],
            self.blank[chosen],
            self.really[chosen],
            self.unmapped,
        )


def glyphs(textpage: pdfium.PdfTextPage, to_pixels: Numbers) -> Glyphs:
    """Take the characters off a text page; to_pixels is the 2 x 3 matrix from the page's space."""
    handle, count = textpage.raw, textpage.count_chars()
    ask = map(pdfium_c.FPDFText_GetUnicode, itertools.repeat(handle), range(count))
    codes = np.fromiter(ask, np.int64, count)
    inked = np.flatnonzero(~np.isin(codes, _BLANKS))
    blank = np.diff(inked, prepend=-2) > 1
    return Glyphs(
        codes=_with_hyphens(handle, codes)[inked],
        boxes=_boxes(handle, inked, to_pixels),
        # Within a run without blanks the direction does not change.
        directions=_directions(handle, inked[blank], to_pixels)[np.cumsum(blank) - 1],
        blank=blank,
        really=_really_blank(handle, inked, blank),
        unmapped=_unmapped(handle, inked),
    )


def _with_hyphens(handle: pdfium_c.FPDF_TEXTPAGE, codes: Indices) -> Indices:
    for index in np.flatnonzero(codes == _HYPHEN_AT_LINE_END).tolist():
        if pdfium_c.FPDFText_IsHyphen(handle, index) == 1:
            codes[index] = ord("-")
    return codes


def _boxes(handle: pdfium_c.FPDF_TEXTPAGE, inked: Indices, to_pixels: Numbers) -> Numbers:
    rects = (pdfium_c.FS_RECTF * len(inked))()
    ask = pdfium_c.FPDFText_GetLooseCharBox
    for rect, index in zip(rects, inked.tolist(), strict=True):
        ask(handle, index, rect)
    # Two opposite corners of each, as columns: left and top, right and bottom.
    corners = np.frombuffer(rects, np.float32).reshape(-1, 2, 2).transpose(1, 2, 0)
    one, other = to_pixels[:, :2] @ corners + to_pixels[:, 2:]
    return np.concatenate((np.minimum(one, other), np.maximum(one, other))).T


def _directions(handle: pdfium_c.FPDF_TEXTPAGE, starts: Indices, to_pixels: Numbers) -> Numbers:
    matrices = (pdfium_c.FS_MATRIX * len(starts))()
    for matrix, index in zip(matrices, starts.tolist(), strict=True):
        pdfium_c.FPDFText_GetMatrix(handle, index, matrix)
    a, b, c, d = np.frombuffer(matrices, np.float32).reshape(-1, 6)[:, :4].T
    along = np.stack((a, b), axis=1) @ to_pixels[:, :2].T
    along[a * d < b * c] *= -1  # mirrored, so that letters follow each other to the left
    length = np.hypot(along[:, 0], along[:, 1])
    along[length == 0] = (1.0, 0.0)
    return along / np.where(length == 0, 1.0, length)[:, np.newaxis]


def _really_blank(handle: pdfium_c.FPDF_TEXTPAGE, inked: Indices, blank: Flags) -> Flags:
    """Ask whether the blank before each character is the file's own, or PDFium's guess."""
    really = blank.copy()
    for gap in np.flatnonzero(blank).tolist():
        really[gap] = pdfium_c.FPDFText_IsGenerated(handle, int(inked[gap]) - 1) == 0
    return really


def _unmapped(handle: pdfium_c.FPDF_TEXTPAGE, inked: Indices) -> float:
    sample = inked[:: max(1, len(inked) // _UNMAPPED_SAMPLE)].tolist()
    lost = sum(1 for index in sample if pdfium_c.FPDFText_HasUnicodeMapError(handle, index) == 1)
    return lost / max(1, len(sample))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Glyphs along their own direction: from start to end, between upper and lower edge."""

    start: Numbers
    end: Numbers
    upper: Numbers
    lower: Numbers


def _frame(chars: Glyphs) -> _Frame:
    cos, sin = chars.directions.T
    left, top, right, bottom = chars.boxes.T
    length, height = _sides(right - left, bottom - top, np.abs(cos), np.abs(sin))
    x, y = (left + right) / 2, (top + bottom) / 2
    along, across = x * cos + y * sin, y * cos - x * sin
    return _Frame(along - length / 2, along + length / 2, across - height / 2, across + height / 2)


def _sides(width: Numbers, height: Numbers, cos: Numbers, sin: Numbers) -> tuple[Numbers, Numbers]:
    """Find length and height of slanted letters from the upright boxes around them.

    Near 45 degrees the boxes do not tell; there a letter is taken to be two thirds as long as high.
    """
    spread = cos**2 - sin**2
    clear = np.abs(spread) > 0.35
    safe = np.where(clear, spread, 1.0)
    both = (width + height) / (cos + sin)
    long = np.where(clear, (width * cos - height * sin) / safe, both * 0.4)
    high = np.where(clear, (height * cos - width * sin) / safe, both * 0.6)
    return np.maximum(long, 0.0), np.maximum(high, 0.1)


def lines(chars: Glyphs) -> tuple[pages.Line, ...]:
    """Make words and lines, in the order of the file; a wide gap ends a line, as a column does."""
    if not len(chars):
        return ()
    chars, new_word, new_line = _arranged(chars)
    frame = _frame(chars)
    words = _words(chars, frame, np.flatnonzero(new_word))
    spans = _spans(np.flatnonzero(new_line[new_word]), len(words))
    quads = _quads(chars, frame, np.flatnonzero(new_line))
    made = (
        (tuple(word for word in words[start:end] if word.text), quad)
        for (start, end), quad in zip(spans, quads, strict=True)
    )
    return tuple(
        pages.Line(" ".join(word.text for word in group), quad, 1.0, group)
        for group, quad in _sideways_sorted(made, chars.directions[new_line])
        if group
    )


def _arranged(chars: Glyphs) -> tuple[Glyphs, Flags, Flags]:
    """Tell which characters begin a word, and which a line; letters in the order they are read."""
    frame = _frame(chars)
    new_word, new_line = _breaks(chars, frame)
    kinds = np.unique(chars.codes).tolist()
    leftward = np.isin(chars.codes, [code for code in kinds if bidi.is_leftward(chr(code))])
    if not leftward.any():
        return chars, new_word, new_line
    latin = np.isin(chars.codes, [code for code in kinds if bidi.is_latin(chr(code))])
    spans = _spans(np.flatnonzero(_new_row(chars, frame)), len(chars))
    # PDFium orders single words in a Latin line itself.
    rows = [(a, b) for a, b in spans if leftward[a:b].sum() > latin[a:b].sum()]
    columns = (frame.start, frame.end, frame.lower - frame.upper, new_word, chars.really, new_line)
    letters = [
        logical.Letter(number, chr(code), *measures)
        for number, (code, *measures) in enumerate(
            zip(*(column.tolist() for column in (chars.codes, *columns)), strict=True)
        )
    ]
    order, codes = np.arange(len(chars)), chars.codes.copy()
    arranged = logical.arrange([letters[start:end] for start, end in rows])
    for (start, end), found in zip(rows, arranged, strict=True):
        words = list(itertools.chain(*found))
        order[start:end] = [letter.number for word in words for letter in word]
        codes[start:end] = [ord(letter.text) for word in words for letter in word]
        new_word[start:end] = [place == 0 for word in words for place in range(len(word))]
        new_line[start:end] = [place == 0 for line in found for place in range(sum(map(len, line)))]
    return replace(chars[order], codes=codes), new_word, new_line


def _new_row(chars: Glyphs, frame: _Frame) -> Flags:
    """Tell which characters are on another level than the one before, or run another way."""
    height = frame.lower - frame.upper
    taller = np.maximum(height[1:], height[:-1])
    middle = (frame.upper + frame.lower) / 2
    turned = np.sum(chars.directions[1:] * chars.directions[:-1], axis=1) < 0.99
    return np.concatenate(([True], turned | (np.abs(np.diff(middle)) > _OFF_LINE * taller)))


def _sideways_sorted(
    made: Iterable[tuple[tuple[pages.Word, ...], pages.Quad]], directions: Numbers
) -> Iterator[tuple[tuple[pages.Word, ...], pages.Quad]]:
    """Put lines that run down, up or upside down in order, which PDFium does not do."""
    described = zip(made, directions.round(2).tolist(), strict=True)
    for (cos, sin), group in itertools.groupby(described, key=operator.itemgetter(1)):
        run = [line for line, _ in group]
        if cos < 0.99:
            run.sort(key=lambda line: line[1][0].y * cos - line[1][0].x * sin)
        yield from run


def _breaks(chars: Glyphs, frame: _Frame) -> tuple[Flags, Flags]:
    """Tell which characters begin a word, and which a line."""
    height = frame.lower - frame.upper
    taller = np.maximum(height[1:], height[:-1])
    shorter = np.minimum(height[1:], height[:-1])
    # Measured both ways, as Hebrew and Arabic run to the left.
    gap = np.maximum(frame.start[1:] - frame.end[:-1], frame.start[:-1] - frame.end[1:])
    line = _new_row(chars, frame)[1:]
    line |= (gap > _COLUMN_GAP * taller) | (gap < _LEAP_BACK * taller)
    word = line | chars.really[1:] | (chars.blank[1:] & (gap > _WORD_GAP * shorter))
    return np.concatenate(([True], word)), np.concatenate(([True], line))


def _words(chars: Glyphs, frame: _Frame, starts: Indices) -> list[pages.Word]:
    text = "".join(map(chr, chars.codes.tolist()))
    spans = _spans(starts, len(text))
    return [
        pages.Word(_clean(text[start:end]), quad, 1.0)
        for (start, end), quad in zip(spans, _quads(chars, frame, starts), strict=True)
    ]


def _clean(text: str) -> str:
    """Join halves of a character beyond the first 65,536, and drop what is no character."""
    if text.isprintable():
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return "".join(char for char in whole if unicodedata.category(char) not in {"Cc", "Cn"})


def _spans(starts: Indices, end: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise([*starts.tolist(), end]))


def _quads(chars: Glyphs, frame: _Frame, starts: Indices) -> list[pages.Quad]:
    cos, sin = chars.directions[starts].T
    start, upper = (np.minimum.reduceat(edge, starts) for edge in (frame.start, frame.upper))
    end, lower = (np.maximum.reduceat(edge, starts) for edge in (frame.end, frame.lower))
    corners = ((start, upper), (end, upper), (end, lower), (start, lower))
    one, two, three, four = (
        map(
            pages.Point,
            (along * cos - across * sin).tolist(),
            (along * sin + across * cos).tolist(),
        )
        for along, across in corners
    )
    return list(zip(one, two, three, four, strict=True))
