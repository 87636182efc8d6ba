"""Decide whether the text layer of a page can be trusted, or the page needs OCR.

A text layer may be useless: fonts with wrong Unicode maps, text outside the page, only a stamp or a
page number over a scan, or poor OCR of another program. Wrong Unicode maps give random letters,
which is measured by the letter pairs of languages in Latin letters. All measures are cheap, and
their thresholds were set on real pages.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr.pdf import text as pdf_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pagewarden.ocr import pages

# For each letter or blank, the following letters whose pair makes up at least 0.2 % of all pairs in
# one of 31 European and Asian languages, without accents. In other languages, from Azeri to Xhosa,
# these are 93 % of all pairs; in text with shuffled letters at most 81 %.
_FOLLOWERS = {
    " ": "abcdefghijklmnopqrstuvwxyz",
    "a": " abcdefghijklmnoprstuvwyz",
    "b": " aehiloruy",
    "c": " acehijkorstuyz",
    "d": " adehilnouyz",
    "e": " abcdefghijklmnoprstuvwxyz",
    "f": " aefhinou",
    "g": " aehinoruwy",
    "h": " aeilortuwy",
    "i": " abcdefgijklmnoprstuvxyz",
    "j": " aeilou",
    "k": " aehiklnorstuy",
    "l": " adegijlmnostuwy",
    "m": " abehimopsu",
    "n": " acdeghijkmnostuy",
    "o": " abcdefghijklmnoprstuvwz",
    "p": " aehiloprtu",
    "q": "u",
    "r": " adeghikmnoqrstuz",
    "s": " acehiklopstuyz",
    "t": " aehinorstuxyz",
    "u": " abcdegijklmnoprstuyz",
    "v": " aeinory",
    "w": " aehinory",
    "x": " ae",
    "y": " abcdefklmnorst",
    "z": " aeinoty",
}
_LIKELY_PAIRS = frozenset((first, second) for first, rest in _FOLLOWERS.items() for second in rest)

_REPLACEMENTS = str.maketrans(
    {
        "ß": "ss",
        "\u017f": "s",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "\u0131": "i",
    }
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_NON_LETTERS = re.compile("[^a-z]+")


def fold_words(text: str) -> list[str]:
    """Return the words of Latin letters, without case and accents; other characters split words."""
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", text.lower().translate(_REPLACEMENTS)))
    return _NON_LETTERS.sub(" ", plain).split()


def measure_letter_pairs(words: list[str]) -> tuple[int, float]:
    """Return the number of letter pairs in folded words, and the share of likely pairs."""
    pairs = Counter(itertools.pairwise(f" {' '.join(words)} "))
    total = pairs.total() if words else 0
    likely = sum(count for pair, count in pairs.items() if pair in _LIKELY_PAIRS)
    return total, likely / max(1, total)


SKETCH_DPI = 100.0
"""Page resolution that `covers` uses."""

_MAX_OUTSIDE = 0.9
_MAX_JUNK = 0.1
_MAX_SYMBOLS = 0.35
_MAX_MOST_FREQUENT = 0.4
_MAX_ACCENTS = 0.5
_MAX_UNMAPPED = 0.5
_MIN_LIKELY_SHARE = 0.87  # real text of 60 languages has 0.93 or more, shuffled letters 0.81
_MIN_PAIRS = 60

# Over a scan the layer is OCR, and is trusted only if it is good: the alternative is our own OCR.
_MIN_OCR_LIKELY_PAIRS = 0.945
_MIN_OCR_WORD_LENGTH = 3.0  # mean letters; OCR of another script finds shorter words
_MAX_OCR_SYMBOLS = 0.25
_MIN_COVERED_INK = 0.75  # whole layers cover 0.9 of the ink, half a layer 0.5, stamps 0.1

_LEADERS = frozenset("._-\u2013\u2014…·•*=|+#~")
_JUNK = frozenset({"Cc", "Cn", "Co", "Cs"})


@dataclass(frozen=True, slots=True)
class TextMeasures:
    """Measures of the text of a layer; shares are relative to all characters but blanks.

    pairs is the number of adjacent Latin letters, likely the share of likely pairs, accents the
    share of Latin letters beyond ASCII, and word_length the mean length of words of Latin letters.
    """

    count: int
    junk: float
    symbols: float
    most_frequent: float
    accents: float
    pairs: int
    likely: float
    word_length: float


def read_trusted_lines(
    chars: pdf_text.Glyphs,
    width: int,
    height: int,
    render_sketch: Callable[[], NDArray[np.uint8]] | None,
) -> tuple[pages.Line, ...] | None:
    """Return the lines of a layer if it can be trusted; render_sketch is given for scans only."""
    inside = chars[_is_on_page(chars, width, height)]
    if len(inside) <= (1 - _MAX_OUTSIDE) * len(chars):
        return None
    lines = pdf_text.build_lines(inside)
    measures = measure_text(inside.codes.tolist(), [line.text for line in lines])
    if not is_readable(measures, chars.unmapped):
        return None
    if render_sketch is not None and not (
        is_good_ocr(measures) and covers_ink(lines, render_sketch(), width)
    ):
        return None
    return lines or None


def _is_on_page(chars: pdf_text.Glyphs, width: int, height: int) -> NDArray[np.bool_]:
    x = (chars.boxes[:, 0] + chars.boxes[:, 2]) / 2
    y = (chars.boxes[:, 1] + chars.boxes[:, 3]) / 2
    return (x >= 0) & (x <= width) & (y >= 0) & (y <= height)


def measure_text(codes: Sequence[int], texts: Sequence[str]) -> TextMeasures:
    """Measure a layer: its characters as in the file, and the texts of its lines."""
    kinds = Counter(map(chr, codes))
    ordinary = Counter({char: count for char, count in kinds.items() if char not in _LEADERS})
    letters = Counter({char: count for char, count in kinds.items() if _is_latin(char)})
    words = fold_words("\n".join(texts))
    pairs, likely = measure_letter_pairs(words)
    return TextMeasures(
        count=kinds.total(),
        junk=_measure_share(ordinary, _is_junk),
        symbols=_measure_share(ordinary, _is_symbol),
        most_frequent=_measure_most_frequent_share(ordinary),
        accents=_measure_share(letters, lambda char: not char.isascii()),
        pairs=pairs,
        likely=likely,
        word_length=sum(map(len, words)) / max(1, len(words)),
    )


def _measure_share(chars: Counter[str], predicate: Callable[[str], bool]) -> float:
    matching = sum(count for char, count in chars.items() if predicate(char))
    return matching / max(1, chars.total())


def _measure_most_frequent_share(chars: Counter[str]) -> float:
    """Return the share of the most frequent character; digits do not count, as in tables."""
    return max((n for char, n in chars.items() if not char.isdigit()), default=0) / max(
        1, chars.total()
    )


def _is_junk(char: str) -> bool:
    return char == "\ufffd" or unicodedata.category(char) in _JUNK


def _is_symbol(char: str) -> bool:
    """Tell whether a character is a Latin-1 symbol; some scripts use other symbols as letters."""
    return char < "\u0100" and unicodedata.category(char)[0] in "SP"


def _is_latin(char: str) -> bool:
    return char.isalpha() and (char < "\u0250" or "\u1e00" <= char <= "\u1eff")


def is_readable(measures: TextMeasures, unmapped_share: float) -> bool:
    """Tell text from gibberish; unmapped is the share of characters without a Unicode mapping."""
    if measures.junk > _MAX_JUNK or measures.symbols > _MAX_SYMBOLS:
        return False
    if measures.count >= 20 and measures.most_frequent > _MAX_MOST_FREQUENT:
        return False
    if measures.accents > _MAX_ACCENTS and measures.pairs >= _MIN_PAIRS:
        return False
    if measures.pairs >= _MIN_PAIRS:
        return measures.likely >= _MIN_LIKELY_SHARE
    return unmapped_share <= _MAX_UNMAPPED


def is_good_ocr(measures: TextMeasures) -> bool:
    """Tell whether readable text is good enough to make our own OCR unnecessary."""
    if measures.symbols > _MAX_OCR_SYMBOLS:
        return False
    return measures.pairs < _MIN_PAIRS or (
        measures.likely >= _MIN_OCR_LIKELY_PAIRS and measures.word_length >= _MIN_OCR_WORD_LENGTH
    )


def covers_ink(lines: Sequence[pages.Line], sketch: NDArray[np.uint8], width: int) -> bool:
    """Tell whether the words cover most of the ink that looks like letters on the scan.

    sketch is the page at SKETCH_DPI; the lines are in pixels of a page image this wide.
    """
    grey = sketch if sketch.ndim == 2 else sketch[:, :, 1]  # green is close to luminance
    ink = _find_letter_ink(grey)
    if not ink.any():
        return True
    scale = grey.shape[1] / width
    covered = np.zeros(grey.shape, np.uint8)
    for line in lines:
        for word in line.words:
            corners = np.array(word.quad) * scale
            cv2.fillConvexPoly(covered, corners.round().astype(np.int32), 1)
    near = cv2.dilate(covered, np.ones((5, 5), np.uint8)) > 0
    return bool(np.count_nonzero(ink & near) >= _MIN_COVERED_INK * np.count_nonzero(ink))


def _find_letter_ink(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return the ink, light or dark, in components of the size of letters and short words."""
    paper = cv2.medianBlur(np.ascontiguousarray(grey), 31)
    ink = (cv2.absdiff(grey, paper) > 40).astype(np.uint8)
    _, labels, sizes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    width, height = sizes[:, cv2.CC_STAT_WIDTH], sizes[:, cv2.CC_STAT_HEIGHT]
    fits = (height >= 3) & (height <= 45) & (width <= 150) & (sizes[:, cv2.CC_STAT_AREA] >= 6)
    fits[0] = False  # the background
    return np.asarray(fits[labels], dtype=np.bool_)
