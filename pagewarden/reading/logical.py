"""The characters of a PDF page in logical order, where its script runs from right to left.

PDFium takes letters to be written as they stand, from left to right, and turns lines round: not in
all files, where the places of the letters tell; the words of a Latin phrase with the rest; and
ligatures and brackets whether they need it or not. Text that was written from left to right in
logical order, as simple programs do, is known by its spelling.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pagewarden.reading import bidi

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLUMN_GAP = 2.0  # heights of the text

_LAM = "ل"  # stands before the alef of a ligature, never after it


class Letter(NamedTuple):
    """A character as PDFium gives it: where it begins and ends along its line, and its height.

    blank tells whether there is a blank before it, really whether it is the file's own; leaps,
    whether it is far from the one before.
    """

    number: int
    text: str
    start: float
    end: float
    height: float
    blank: bool
    really: bool
    leaps: bool

    @property
    def middle(self) -> float:
        """Tell where it stands."""
        return (self.start + self.end) / 2


Word = list[Letter]


@dataclass(slots=True)
class _Glyph:
    """Letters that are drawn as one; without any it is a blank."""

    letters: list[Letter]
    really: bool = False

    @property
    def text(self) -> str:
        return "".join(letter.text for letter in self.letters) or " "


_Line = list[_Glyph]


def arrange(rows: Sequence[Sequence[Letter]]) -> list[list[list[Word]]]:
    """Make each row of letters, as PDFium orders them, into lines of words in logical order."""
    visual = list(map(_is_visual, rows))
    drawn = [list(_glyphs(row, visual=turns)) for row, turns in zip(rows, visual, strict=True)]
    _mend_ligatures([row for row, turns in zip(drawn, visual, strict=True) if not turns])
    found = [
        list(_columns(_turned(row) if turns else list(_with_phrases(row))))
        for row, turns in zip(drawn, visual, strict=True)
    ]
    every = list(itertools.chain(*found))
    if bidi.are_spelt_backwards(word for line in every for word in _text(line).split()):
        for line in every:
            line[:] = itertools.chain(*map(_turned, _pieces(line)))
    if bidi.has_brackets_reversed("\n".join(map(_text, every))):
        for line in every:
            _exchange_brackets(line)
    return [[list(_words(line)) for line in lines] for lines in found]


def _is_visual(row: Sequence[Letter]) -> bool:
    """Tell whether letters of a script that runs leftwards follow each other to the right."""
    steps = [
        after.middle - before.middle
        for before, after in itertools.pairwise(row)
        if bidi.is_leftward(before.text) and bidi.is_leftward(after.text) and not after.leaps
    ]
    return sum(step > 0 for step in steps) > sum(step < 0 for step in steps)


def _glyphs(row: Sequence[Letter], *, visual: bool) -> Iterator[_Glyph]:
    """Join the letters of a ligature, which have one place, and put blanks between."""
    starts = [place for place, letter in enumerate(row) if letter.leaps and place]
    pieces = [row[start:end] for start, end in itertools.pairwise([0, *starts, len(row)])]
    pieces.sort(key=lambda piece: piece[0].start, reverse=not visual)
    for number, piece in enumerate(pieces):
        for place, group in itertools.groupby(piece, key=lambda each: (each.start, each.end)):
            letters = list(group)
            if letters[0].blank and (number or place != (piece[0].start, piece[0].end)):
                yield _Glyph([], letters[0].really)
            yield _Glyph(letters)


def _mend_ligatures(rows: Sequence[_Line]) -> None:
    """Turn the letters of ligatures back, unless the file has them turned round itself."""
    ligatures = [
        glyph
        for glyph in itertools.chain(*rows)
        if len(glyph.letters) > 1 and bidi.is_leftward(glyph.text[0])
    ]
    first = sum(glyph.text[0] == _LAM for glyph in ligatures)
    last = sum(glyph.text[-1] == _LAM for glyph in ligatures)
    if last >= first:
        for glyph in ligatures:
            glyph.letters.reverse()


def _turned(line: _Line) -> _Line:
    """Turn what is in visual order, or what was turned and should not have been."""
    kinds = "".join(glyph.text[0] for glyph in line)
    return [line[place] for place in bidi.turned_places(kinds)]


def _with_phrases(line: _Line) -> Iterator[_Glyph]:
    """Put words in order that run from left to right side by side, as two Latin ones do."""
    parts = [list(part) for _, part in itertools.groupby(line, key=lambda each: bool(each.letters))]
    for leftwards, run in itertools.groupby(parts, key=_has_leftward):
        phrase = list(run)
        if not leftwards and any(map(bidi.is_latin, _text(*phrase))):
            words = sorted((part for part in phrase if part[0].letters), key=_place)
            phrase = [words.pop(0) if part[0].letters else part for part in phrase]
        yield from itertools.chain(*phrase)


def _has_leftward(part: _Line) -> bool:
    return any(map(bidi.is_leftward, _text(part)))


def _place(part: _Line) -> float:
    return part[0].letters[0].middle


def _columns(line: _Line) -> Iterator[_Line]:
    """Part a line where nothing stands for a wide stretch; the rightmost column comes first."""
    letters = sorted((each.letters[0] for each in line if each.letters), key=lambda it: it.start)
    wide = _COLUMN_GAP * statistics.median(letter.height for letter in letters)
    reaches = itertools.accumulate((letter.end for letter in letters), max)
    borders = [
        letter.start
        for reach, letter in zip(reaches, letters[1:], strict=False)
        if letter.start - reach > wide
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


def _text(*lines: _Line) -> str:
    return "".join(glyph.text for line in lines for glyph in line)


def _pieces(line: _Line) -> Iterator[_Line]:
    """Part a line where the file has no blank: the pieces were written one by one."""
    for _, piece in itertools.groupby(line, key=lambda each: bool(each.letters) or each.really):
        yield list(piece)


def _exchange_brackets(line: _Line) -> None:
    letters = iter(bidi.exchange_brackets(_text(line)))
    for glyph in line:
        exchanged = list(itertools.islice(letters, len(glyph.text)))
        glyph.letters = [
            letter._replace(text=text)
            for letter, text in zip(glyph.letters, exchanged, strict=False)
        ]


def _words(line: _Line) -> Iterator[Word]:
    for is_word, glyphs in itertools.groupby(line, key=lambda each: bool(each.letters)):
        if is_word:
            yield [letter for glyph in glyphs for letter in glyph.letters]
