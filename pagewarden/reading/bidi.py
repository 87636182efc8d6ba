"""Text that runs from right to left: what does, and how the order of its letters is turned round.

Text is kept in logical order, that is as it is read and typed. In visual order the letters of a
line stand from left to right, as a PDF draws them and as a network sees them.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LEFTWARDS = frozenset({"R", "AL"})
_STRONG = frozenset({"L", *_LEFTWARDS})

_OPENING, _CLOSING = "([{<«", ")]}>»"
_EXCHANGE = str.maketrans(_OPENING + _CLOSING, _CLOSING + _OPENING)
_PAIRED = re.compile(r"\([^()\n]*\)|\[[^\[\]\n]*\]")
_REVERSED = re.compile(r"\)[^()\n]*\(|\][^\[\]\n]*\[")

# Letters that words begin with, and such as they end in.
_FIRST, _LAST = frozenset("آأإ"), frozenset("ךםןףץةىۀ")
_LEAST_PROOFS = 2

# With the signs that belong to it.
_NUMBER = re.compile(r"[#$%°€£₪٪]*\d+(?:[.,:/\u066b\u066c+-]\d+)*[#$%°€£₪٪]*")


def is_leftward(letter: str) -> bool:
    """Tell whether it is a letter of a script that runs from right to left."""
    return unicodedata.bidirectional(letter) in _LEFTWARDS


def is_latin(letter: str) -> bool:
    """Tell whether it is a letter of a script that runs from left to right."""
    return unicodedata.bidirectional(letter) == "L"


def runs_leftwards(text: str) -> bool:
    """Ask the first letter that has a direction."""
    kinds = map(unicodedata.bidirectional, text)
    return next((kind in _LEFTWARDS for kind in kinds if kind in _STRONG), False)


def turned(text: str) -> str:
    """Turn a line that runs leftwards from visual to logical order, or back.

    Numbers, and what is written from left to right as Latin words are, stay as they are.
    """
    return "".join(text[place] for place in turned_places(text))


def turned_places(text: str) -> list[int]:
    """Tell for each letter of the turned line where it stands in the line as it is."""
    places: list[int] = []
    for rightward, start, end in reversed(list(_runs(text))):
        run = range(start, end)
        places += run if rightward else reversed(run)
    return places


def are_spelt_backwards(words: Iterable[str]) -> bool:
    """Tell by letters that stand only at the beginning or the end of words, mostly."""
    forwards = backwards = 0
    for text in words:
        word = "".join(filter(str.isalpha, unicodedata.normalize("NFKC", text)))
        if len(word) > 1:
            forwards += (word[0] in _FIRST) + (word[-1] in _LAST)
            backwards += (word[-1] in _FIRST) + (word[0] in _LAST)
    return backwards >= max(_LEAST_PROOFS, 2 * forwards)


def has_brackets_reversed(text: str) -> bool:
    """Tell whether brackets are closed before they are opened, more often than the other way."""
    return len(_REVERSED.findall(text)) > len(_PAIRED.findall(text))


def exchange_brackets(text: str) -> str:
    """Put opening brackets for closing ones and the other way; not within Latin words."""
    return "".join(
        text[start:end] if rightward else text[start:end].translate(_EXCHANGE)
        for rightward, start, end in _runs(text)
    )


def _runs(text: str) -> Iterator[tuple[bool, int, int]]:
    """Part a line into what runs to the right and what to the left."""
    for rightward, run in itertools.groupby(range(len(text)), key=_rightward(text).__getitem__):
        places = list(run)
        yield rightward, places[0], places[-1] + 1


def _rightward(text: str) -> list[bool]:
    """Tell it of each letter; what stands between Latin letters, or after them before a number."""
    kinds = [unicodedata.bidirectional(letter) for letter in text]
    rightward = [kind == "L" for kind in kinds]
    for number in _NUMBER.finditer(text):
        rightward[slice(*number.span())] = [True] * len(number[0])
    last = None  # the end of the last Latin word, or of the number that follows one
    for place, kind in enumerate(kinds):
        if kind in _LEFTWARDS:
            last = None
        elif rightward[place] and (last is not None or kind == "L"):
            if last is not None:
                rightward[last:place] = [True] * (place - last)
            last = place + 1
    return rightward
