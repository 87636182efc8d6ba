"""Right-to-left text: detect it, and convert between logical and visual order.

Text is stored in logical order, as it is read and typed. In visual order, the letters of a line are
sorted from left to right, as a PDF draws them and as a recognition model reads them.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_RTL = frozenset({"R", "AL"})
_STRONG = frozenset({"L", *_RTL})

_OPENING, _CLOSING = "([{<«", ")]}>»"
_SWAPPED_BRACKETS = str.maketrans(_OPENING + _CLOSING, _CLOSING + _OPENING)
_PAIRED = re.compile(r"\([^()\n]*\)|\[[^\[\]\n]*\]")
_REVERSED = re.compile(r"\)[^()\n]*\(|\][^\[\]\n]*\[")

# Letters that occur only at the beginning of words, and only at the end.
_INITIAL_LETTERS, _FINAL_LETTERS = frozenset("آأإ"), frozenset("ךםןףץةىۀ")
_MIN_REVERSED = 2

# A number with its currency and percent signs.
_NUMBER = re.compile(r"[#$%°€£₪٪]*\d+(?:[.,:/\u066b\u066c+-]\d+)*[#$%°€£₪٪]*")


def is_rtl_letter(letter: str) -> bool:
    """Tell whether a letter belongs to a right-to-left script."""
    return unicodedata.bidirectional(letter) in _RTL


def is_ltr_letter(letter: str) -> bool:
    """Tell whether a letter belongs to a left-to-right script."""
    return unicodedata.bidirectional(letter) == "L"


def is_right_to_left(text: str) -> bool:
    """Return the direction of the first letter that has one."""
    kinds = map(unicodedata.bidirectional, text)
    return next((kind in _RTL for kind in kinds if kind in _STRONG), False)


def reorder(text: str) -> str:
    """Convert a right-to-left line from visual to logical order, or back.

    Numbers and left-to-right words keep the order of their letters.
    """
    return "".join(text[index] for index in reorder_positions(text))


def reorder_positions(text: str) -> list[int]:
    """Return for each letter of the converted line its index in the given line."""
    positions: list[int] = []
    for is_ltr, start, end in reversed(list(_split_runs(text))):
        run = range(start, end)
        positions += run if is_ltr else reversed(run)
    return positions


def are_reversed(words: Iterable[str]) -> bool:
    """Tell whether words are reversed, by letters that are typical of their beginning or end."""
    forwards = backwards = 0
    for text in words:
        word = "".join(filter(str.isalpha, unicodedata.normalize("NFKC", text)))
        if len(word) > 1:
            forwards += (word[0] in _INITIAL_LETTERS) + (word[-1] in _FINAL_LETTERS)
            backwards += (word[-1] in _INITIAL_LETTERS) + (word[0] in _FINAL_LETTERS)
    return backwards >= max(_MIN_REVERSED, 2 * forwards)


def are_brackets_reversed(text: str) -> bool:
    """Tell whether brackets are closed before they are opened more often than correct."""
    return len(_REVERSED.findall(text)) > len(_PAIRED.findall(text))


def swap_brackets(text: str) -> str:
    """Swap opening and closing brackets, except in left-to-right words."""
    return "".join(
        text[start:end] if is_ltr else text[start:end].translate(_SWAPPED_BRACKETS)
        for is_ltr, start, end in _split_runs(text)
    )


def _split_runs(text: str) -> Iterator[tuple[bool, int, int]]:
    """Split a line into runs; True is left to right."""
    for is_ltr, run in itertools.groupby(range(len(text)), key=_find_ltr(text).__getitem__):
        indices = list(run)
        yield is_ltr, indices[0], indices[-1] + 1


def _find_ltr(text: str) -> list[bool]:
    """Tell for each character whether it runs from left to right.

    This includes characters between Latin letters, and between them and a following number.
    """
    kinds = [unicodedata.bidirectional(letter) for letter in text]
    is_ltr = [kind == "L" for kind in kinds]
    for number in _NUMBER.finditer(text):
        is_ltr[slice(*number.span())] = [True] * len(number[0])
    last = None  # the end of the last Latin word, or of the number that follows one
    for index, kind in enumerate(kinds):
        if kind in _RTL:
            last = None
        elif is_ltr[index] and (last is not None or kind == "L"):
            if last is not None:
                is_ltr[last:index] = [True] * (index - last)
            last = index + 1
    return is_ltr
