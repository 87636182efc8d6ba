"""Text of a PDF page: the characters of PDFium, grouped into words and lines with quads.

The blanks and line ends of PDFium are only hints, because it assumes one direction for the whole
page and splits sideways text into letters. Here gaps are measured along the text itself.
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

from pagewarden.ocr import bidi, pages
from pagewarden.ocr.pdf import logical_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Indices = NDArray[np.int64]

# In heights of the text; these agree best with pdftotext on born-digital PDFs.
_WORD_GAP = 0.05  # where PDFium generates a blank; it recognises letterspaced text
_COLUMN_GAP = 2.0
_LEAP_BACK = -1.5
_OFF_LINE = 0.5

_UNMAPPED_SAMPLE = 100

_BLANKS = (*(code for code in range(0x3001) if chr(code).isspace()), 0x200B, 0xFEFF)
_HYPHEN_AT_LINE_END = 0x02  # the code of PDFium for a hyphen at the end of a line


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a page without blanks, in the order of PDFium; coordinates are pixels.

    boxes are left, top, right, bottom; directions are unit vectors along the text. For each
    character, after_blank tells whether PDFium reports a blank before it, and after_real_blank
    whether the file itself has one. unmapped is the share of characters without a Unicode mapping.
    """

    codes: Indices
    boxes: Numbers
    directions: Numbers
    after_blank: Flags
    after_real_blank: Flags
    unmapped: float = 0.0

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, selection: Flags | Indices) -> Glyphs:
        return Glyphs(
            self.codes[selection],
            self.boxes[selection],
            self.directions[selection],
            self.after_blank[selection],
            self.after_real_blank[selection],
            self.unmapped,
        )


def read_glyphs(textpage: pdfium.PdfTextPage, to_pixels: Numbers) -> Glyphs:
    """Read the characters of a text page; to_pixels is the matrix from PDF coordinates."""
    handle, count = textpage.raw, textpage.count_chars()
    unicodes = map(pdfium_c.FPDFText_GetUnicode, itertools.repeat(handle), range(count))
    codes = np.fromiter(unicodes, np.int64, count)
    visible = np.flatnonzero(~np.isin(codes, _BLANKS))
    after_blank = np.diff(visible, prepend=-2) > 1
    return Glyphs(
        codes=_replace_hyphens(handle, codes)[visible],
        boxes=_read_boxes(handle, visible, to_pixels),
        # Within a run without blanks the direction does not change.
        directions=_read_directions(handle, visible[after_blank], to_pixels)[
            np.cumsum(after_blank) - 1
        ],
        after_blank=after_blank,
        after_real_blank=_find_real_blanks(handle, visible, after_blank),
        unmapped=_measure_unmapped_share(handle, visible),
    )


def _replace_hyphens(handle: pdfium_c.FPDF_TEXTPAGE, codes: Indices) -> Indices:
    for index in np.flatnonzero(codes == _HYPHEN_AT_LINE_END).tolist():
        if pdfium_c.FPDFText_IsHyphen(handle, index) == 1:
            codes[index] = ord("-")
    return codes


def _read_boxes(handle: pdfium_c.FPDF_TEXTPAGE, visible: Indices, to_pixels: Numbers) -> Numbers:
    rects = (pdfium_c.FS_RECTF * len(visible))()
    read_box = pdfium_c.FPDFText_GetLooseCharBox
    for rect, index in zip(rects, visible.tolist(), strict=True):
        read_box(handle, index, rect)
    # Two opposite corners of each, as columns: left and top, right and bottom.
    corners = np.frombuffer(rects, np.float32).reshape(-1, 2, 2).transpose(1, 2, 0)
    one, other = to_pixels[:, :2] @ corners + to_pixels[:, 2:]
    return np.concatenate((np.minimum(one, other), np.maximum(one, other))).T


def _read_directions(
    handle: pdfium_c.FPDF_TEXTPAGE, starts: Indices, to_pixels: Numbers
) -> Numbers:
    matrices = (pdfium_c.FS_MATRIX * len(starts))()
    for matrix, index in zip(matrices, starts.tolist(), strict=True):
        pdfium_c.FPDFText_GetMatrix(handle, index, matrix)
    a, b, c, d = np.frombuffer(matrices, np.float32).reshape(-1, 6)[:, :4].T
    along = np.stack((a, b), axis=1) @ to_pixels[:, :2].T
    along[a * d < b * c] *= -1  # mirrored text runs to the left
    length = np.hypot(along[:, 0], along[:, 1])
    along[length == 0] = (1.0, 0.0)
    return along / np.where(length == 0, 1.0, length)[:, np.newaxis]


def _find_real_blanks(
    handle: pdfium_c.FPDF_TEXTPAGE, visible: Indices, after_blank: Flags
) -> Flags:
    """Tell for each character whether the blank before it is in the file, not from PDFium."""
    real = after_blank.copy()
    for gap in np.flatnonzero(after_blank).tolist():
        real[gap] = pdfium_c.FPDFText_IsGenerated(handle, int(visible[gap]) - 1) == 0
    return real


def _measure_unmapped_share(handle: pdfium_c.FPDF_TEXTPAGE, visible: Indices) -> float:
    sample = visible[:: max(1, len(visible) // _UNMAPPED_SAMPLE)].tolist()
    lost = sum(1 for index in sample if pdfium_c.FPDFText_HasUnicodeMapError(handle, index) == 1)
    return lost / max(1, len(sample))


@dataclass(frozen=True, slots=True)
class _GlyphExtents:
    """The extents of glyphs along and across their direction."""

    start: Numbers
    end: Numbers
    upper: Numbers
    lower: Numbers


def _make_frame(chars: Glyphs) -> _GlyphExtents:
    cos, sin = chars.directions.T
    left, top, right, bottom = chars.boxes.T
    length, height = _compute_slanted_size(right - left, bottom - top, np.abs(cos), np.abs(sin))
    x, y = (left + right) / 2, (top + bottom) / 2
    along, across = x * cos + y * sin, y * cos - x * sin
    return _GlyphExtents(
        along - length / 2, along + length / 2, across - height / 2, across + height / 2
    )


def _compute_slanted_size(
    width: Numbers, height: Numbers, cos: Numbers, sin: Numbers
) -> tuple[Numbers, Numbers]:
    """Return length and height of slanted letters, from their upright bounding boxes.

    Near 45 degrees these do not determine the size; then a letter is two thirds as long as high.
    """
    spread = cos**2 - sin**2
    clear = np.abs(spread) > 0.35
    safe = np.where(clear, spread, 1.0)
    both = (width + height) / (cos + sin)
    long = np.where(clear, (width * cos - height * sin) / safe, both * 0.4)
    high = np.where(clear, (height * cos - width * sin) / safe, both * 0.6)
    return np.maximum(long, 0.0), np.maximum(high, 0.1)


def build_lines(chars: Glyphs) -> tuple[pages.Line, ...]:
    """Group characters into words and lines, in the order of the file; a wide gap ends a line."""
    if not len(chars):
        return ()
    chars, new_word, new_line = _order_characters(chars)
    frame = _make_frame(chars)
    words = _build_words(chars, frame, np.flatnonzero(new_word))
    spans = _make_spans(np.flatnonzero(new_line[new_word]), len(words))
    quads = _make_quads(chars, frame, np.flatnonzero(new_line))
    groups = (
        (tuple(word for word in words[start:end] if word.text), quad)
        for (start, end), quad in zip(spans, quads, strict=True)
    )
    return tuple(
        pages.Line(" ".join(word.text for word in group), quad, 1.0, group)
        for group, quad in _sort_rotated_lines(groups, chars.directions[new_line])
        if group
    )


def _order_characters(chars: Glyphs) -> tuple[Glyphs, Flags, Flags]:
    """Return the characters in reading order, and which of them begin a word, and a line."""
    frame = _make_frame(chars)
    new_word, new_line = _find_breaks(chars, frame)
    kinds = np.unique(chars.codes).tolist()
    is_rtl = np.isin(chars.codes, [code for code in kinds if bidi.is_rtl_letter(chr(code))])
    if not is_rtl.any():
        return chars, new_word, new_line
    is_ltr = np.isin(chars.codes, [code for code in kinds if bidi.is_ltr_letter(chr(code))])
    spans = _make_spans(np.flatnonzero(_find_new_rows(chars, frame)), len(chars))
    # PDFium itself orders single words in a Latin line.
    rows = [(a, b) for a, b in spans if is_rtl[a:b].sum() > is_ltr[a:b].sum()]
    columns = (
        frame.start,
        frame.end,
        frame.lower - frame.upper,
        new_word,
        chars.after_real_blank,
        new_line,
    )
    letters = [
        logical_order.Letter(number, chr(code), *measures)
        for number, (code, *measures) in enumerate(
            zip(*(column.tolist() for column in (chars.codes, *columns)), strict=True)
        )
    ]
    order, codes = np.arange(len(chars)), chars.codes.copy()
    ordered = logical_order.to_logical_order([letters[start:end] for start, end in rows])
    for (start, end), found in zip(rows, ordered, strict=True):
        words = list(itertools.chain(*found))
        order[start:end] = [letter.number for word in words for letter in word]
        codes[start:end] = [ord(letter.text) for word in words for letter in word]
        new_word[start:end] = [index == 0 for word in words for index in range(len(word))]
        new_line[start:end] = [index == 0 for line in found for index in range(sum(map(len, line)))]
    return replace(chars[order], codes=codes), new_word, new_line


def _find_new_rows(chars: Glyphs, frame: _GlyphExtents) -> Flags:
    """Tell which characters differ from the previous one in vertical position or direction."""
    height = frame.lower - frame.upper
    taller = np.maximum(height[1:], height[:-1])
    middle = (frame.upper + frame.lower) / 2
    is_turned = np.sum(chars.directions[1:] * chars.directions[:-1], axis=1) < 0.99
    return np.concatenate(([True], is_turned | (np.abs(np.diff(middle)) > _OFF_LINE * taller)))


def _sort_rotated_lines(
    groups: Iterable[tuple[tuple[pages.Word, ...], pages.Quad]], directions: Numbers
) -> Iterator[tuple[tuple[pages.Word, ...], pages.Quad]]:
    """Sort lines that run down, up or upside down, because PDFium does not."""
    described = zip(groups, directions.round(2).tolist(), strict=True)
    for (cos, sin), group in itertools.groupby(described, key=operator.itemgetter(1)):
        run = [line for line, _ in group]
        if cos < 0.99:
            run.sort(key=lambda line: line[1][0].y * cos - line[1][0].x * sin)
        yield from run


def _find_breaks(chars: Glyphs, frame: _GlyphExtents) -> tuple[Flags, Flags]:
    """Tell which characters begin a word, and which a line."""
    height = frame.lower - frame.upper
    taller = np.maximum(height[1:], height[:-1])
    shorter = np.minimum(height[1:], height[:-1])
    # In both directions, because Hebrew and Arabic run to the left.
    gap = np.maximum(frame.start[1:] - frame.end[:-1], frame.start[:-1] - frame.end[1:])
    line = _find_new_rows(chars, frame)[1:]
    line |= (gap > _COLUMN_GAP * taller) | (gap < _LEAP_BACK * taller)
    word = line | chars.after_real_blank[1:] | (chars.after_blank[1:] & (gap > _WORD_GAP * shorter))
    return np.concatenate(([True], word)), np.concatenate(([True], line))


def _build_words(chars: Glyphs, frame: _GlyphExtents, starts: Indices) -> list[pages.Word]:
    text = "".join(map(chr, chars.codes.tolist()))
    spans = _make_spans(starts, len(text))
    return [
        pages.Word(_clean(text[start:end]), quad, 1.0)
        for (start, end), quad in zip(spans, _make_quads(chars, frame, starts), strict=True)
    ]


def _clean(text: str) -> str:
    """Join surrogate pairs, and remove control characters and unassigned codes."""
    if text.isprintable():
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return "".join(char for char in whole if unicodedata.category(char) not in {"Cc", "Cn"})


def _make_spans(starts: Indices, end: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise([*starts.tolist(), end]))


def _make_quads(chars: Glyphs, frame: _GlyphExtents, starts: Indices) -> list[pages.Quad]:
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
