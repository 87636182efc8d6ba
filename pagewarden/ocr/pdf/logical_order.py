"""Put the characters of right-to-left lines of a PDF page in logical order.

PDFium assumes that such letters are in visual order, and reverses lines. It does not do so in all
files, which the positions of the letters reveal. It also reverses the words of Latin phrases, and
ligatures and brackets even if they are already correct. Text that simple programs have written from
left to right in logical order is detected by its spelling.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pagewarden.ocr import bidi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLUMN_GAP = 2.0  # relative to the height of the text

_LAM = "ل"  # always precedes the alef in a ligature


class Letter(NamedTuple):
    """A character of PDFium: where it begins and ends along its line, and its height.

    after_blank tells whether there is a blank before it, after_real_blank whether that is in the
    file, and after_gap whether the character is far from the previous one.
    """

    number: int
    text: str
    start: float
    end: float
    height: float
    after_blank: bool
    after_real_blank: bool
    after_gap: bool

    @property
    def middle(self) -> float:
        """The position of its centre along the line."""
        return (self.start + self.end) / 2


Word = list[Letter]


@dataclass(slots=True)
class _Glyph:
    """Letters drawn as one glyph; a blank has none."""

    letters: list[Letter]
    is_own_blank: bool = False

    @property
    def text(self) -> str:
        return "".join(letter.text for letter in self.letters) or " "


_Line = list[_Glyph]


def to_logical_order(rows: Sequence[Sequence[Letter]]) -> list[list[list[Word]]]:
    """Convert each row of letters, in the order of PDFium, to lines of words in logical order."""
    visual = list(map(_is_visual, rows))
    glyph_rows = [
        list(_make_glyphs(row, is_visual_order=is_visual))
        for row, is_visual in zip(rows, visual, strict=True)
    ]
    _restore_ligatures(
        [row for row, is_visual in zip(glyph_rows, visual, strict=True) if not is_visual]
    )
    found = [
        list(_split_columns(_reverse(row) if is_visual else list(_order_phrases(row))))
        for row, is_visual in zip(glyph_rows, visual, strict=True)
    ]
    all_lines = list(itertools.chain(*found))
    if bidi.are_reversed(word for line in all_lines for word in _join_text(line).split()):
        for line in all_lines:
            line[:] = itertools.chain(*map(_reverse, _split_at_generated_blanks(line)))
    if bidi.are_brackets_reversed("\n".join(map(_join_text, all_lines))):
        for line in all_lines:
            _swap_brackets(line)
    return [[list(_split_words(line)) for line in lines] for lines in found]


def _is_visual(row: Sequence[Letter]) -> bool:
    """Tell whether right-to-left letters follow each other from left to right."""
    steps = [
        after.middle - before.middle
        for before, after in itertools.pairwise(row)
        if bidi.is_rtl_letter(before.text)
        and bidi.is_rtl_letter(after.text)
        and not after.after_gap
    ]
    return sum(step > 0 for step in steps) > sum(step < 0 for step in steps)


def _make_glyphs(row: Sequence[Letter], *, is_visual_order: bool) -> Iterator[_Glyph]:
    """Join the letters of a ligature, which have the same position, and insert blanks."""
    starts = [index for index, letter in enumerate(row) if letter.after_gap and index]
    pieces = [row[start:end] for start, end in itertools.pairwise([0, *starts, len(row)])]
    pieces.sort(key=lambda piece: piece[0].start, reverse=not is_visual_order)
    for number, piece in enumerate(pieces):
        for extent, group in itertools.groupby(piece, key=lambda each: (each.start, each.end)):
            letters = list(group)
            if letters[0].after_blank and (number or extent != (piece[0].start, piece[0].end)):
                yield _Glyph([], letters[0].after_real_blank)
            yield _Glyph(letters)


def _restore_ligatures(rows: Sequence[_Line]) -> None:
    """Undo the reversal of ligatures, unless they are reversed in the file itself."""
    ligatures = [
        glyph
        for glyph in itertools.chain(*rows)
        if len(glyph.letters) > 1 and bidi.is_rtl_letter(glyph.text[0])
    ]
    first = sum(glyph.text[0] == _LAM for glyph in ligatures)
    last = sum(glyph.text[-1] == _LAM for glyph in ligatures)
    if last >= first:
        for glyph in ligatures:
            glyph.letters.reverse()


def _reverse(line: _Line) -> _Line:
    """Convert a line from visual to logical order, or undo a wrong conversion."""
    kinds = "".join(glyph.text[0] for glyph in line)
    return [line[index] for index in bidi.reorder_positions(kinds)]


def _order_phrases(line: _Line) -> Iterator[_Glyph]:
    """Sort adjacent words that run from left to right, such as those of a Latin phrase."""
    parts = [list(part) for _, part in itertools.groupby(line, key=lambda each: bool(each.letters))]
    for is_rtl, run in itertools.groupby(parts, key=_has_rtl_letter):
        phrase = list(run)
        if not is_rtl and any(map(bidi.is_ltr_letter, _join_text(*phrase))):
            words = sorted((part for part in phrase if part[0].letters), key=_get_position)
            phrase = [words.pop(0) if part[0].letters else part for part in phrase]
        yield from itertools.chain(*phrase)


def _has_rtl_letter(part: _Line) -> bool:
    return any(map(bidi.is_rtl_letter, _join_text(part)))


def _get_position(part: _Line) -> float:
    return part[0].letters[0].middle


def _split_columns(line: _Line) -> Iterator[_Line]:
    """Split a line at wide gaps; the rightmost column comes first."""
    letters = sorted(
        (each.letters[0] for each in line if each.letters), key=lambda each: each.start
    )
    min_gap = _COLUMN_GAP * statistics.median(letter.height for letter in letters)
    reaches = itertools.accumulate((letter.end for letter in letters), max)
    borders = [
        letter.start
        for reach, letter in zip(reaches, letters[1:], strict=False)
        if letter.start - reach > min_gap
    ]
    columns: list[_Line] = [[] for _ in range(len(borders) + 1)]
    blank = None
    for glyph in line:
        if not glyph.letters:
            blank = glyph
            continue
        column = columns[bisect.bisect(borders, glyph.letters[0].start)]
        column += [blank, glyph] if blank and column else [glyph]
        blank = None
    return reversed(columns)


def _join_text(*lines: _Line) -> str:
    return "".join(glyph.text for line in lines for glyph in line)


def _split_at_generated_blanks(line: _Line) -> Iterator[_Line]:
    """Split a line at blanks that are not in the file: the parts are separate texts there."""
    for _, piece in itertools.groupby(
        line, key=lambda each: bool(each.letters) or each.is_own_blank
    ):
        yield list(piece)


def _swap_brackets(line: _Line) -> None:
    letters = iter(bidi.swap_brackets(_join_text(line)))
    for glyph in line:
        swapped = list(itertools.islice(letters, len(glyph.text)))
        glyph.letters = [
            letter._replace(text=text) for letter, text in zip(glyph.letters, swapped, strict=False)
        ]


def _split_words(line: _Line) -> Iterator[Word]:
    for is_word, glyphs in itertools.groupby(line, key=lambda each: bool(each.letters)):
        if is_word:
            yield [letter for glyph in glyphs for letter in glyph.letters]
