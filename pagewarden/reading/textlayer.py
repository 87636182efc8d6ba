"""Whether the text layer of a page can be believed, or the page has to be read by an engine.

A layer may be there and worth nothing: fonts whose maps to Unicode are wrong, text beside the
page, a stamp or a page number over a scan, somebody else's poor OCR of it. The measures are
cheap, and their thresholds were set on real pages.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading import letterpairs, pdftext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pagewarden.reading import pages

SKETCH_DPI = 100.0
"""The resolution that covers wants a scan in."""

_MOST_OUTSIDE = 0.9
_MOST_JUNK = 0.1
_MOST_SYMBOLS = 0.35
_MOST_OF_ONE = 0.4
_MOST_ACCENTS = 0.5
_MOST_UNMAPPED = 0.5
_LEAST_LIKELY_PAIRS = 0.87  # real text of 60 languages has 0.93 or more, shuffled letters 0.81
_ENOUGH_PAIRS = 60

# Over a scan the layer is OCR, and is believed only if it is good: we can read the page ourselves.
_LEAST_LIKELY_PAIRS_OF_OCR = 0.945
_SHORTEST_WORDS_OF_OCR = 3.0  # letters on the average; OCR of another script finds shorter ones
_MOST_SYMBOLS_OF_OCR = 0.25
_LEAST_INK_COVERED = 0.75  # whole layers cover 0.9 of the ink, half a layer 0.5, stamps 0.1

_LEADERS = frozenset("._-\u2013\u2014…·•*=|+#~")
_JUNK = frozenset({"Cc", "Cn", "Co", "Cs"})


@dataclass(frozen=True, slots=True)
class Signs:
    """What a layer's text looks like; shares are of all characters but blanks.

    pairs are neighbouring Latin letters, likely the share of them that languages use; accents is
    the share of Latin letters beyond ASCII, word_length the average of words of Latin letters.
    """

    count: int
    junk: float
    symbols: float
    most_frequent: float
    accents: float
    pairs: int
    likely: float
    word_length: float


def sound_lines(
    chars: pdftext.Glyphs,
    width: int,
    height: int,
    sketch: Callable[[], NDArray[np.uint8]] | None,
) -> tuple[pages.Line, ...] | None:
    """Make lines of a layer that can be believed; sketch draws the page where it is a scan."""
    inside = chars[_on_page(chars, width, height)]
    if len(inside) <= (1 - _MOST_OUTSIDE) * len(chars):
        return None
    lines = pdftext.lines(inside)
    signs = read_signs(inside.codes.tolist(), [line.text for line in lines])
    if not is_readable(signs, chars.unmapped):
        return None
    if sketch is not None and not (is_good_ocr(signs) and covers(lines, sketch(), width)):
        return None
    return lines or None


def _on_page(chars: pdftext.Glyphs, width: int, height: int) -> NDArray[np.bool_]:
    x = (chars.boxes[:, 0] + chars.boxes[:, 2]) / 2
    y = (chars.boxes[:, 1] + chars.boxes[:, 3]) / 2
    return (x >= 0) & (x <= width) & (y >= 0) & (y <= height)


def read_signs(codes: Sequence[int], texts: Sequence[str]) -> Signs:
    """Measure a layer: its characters as they are in the file, and the lines made of them."""
    kinds = Counter(map(chr, codes))
    ordinary = Counter({char: count for char, count in kinds.items() if char not in _LEADERS})
    letters = Counter({char: count for char, count in kinds.items() if _is_latin(char)})
    words = letterpairs.fold("\n".join(texts))
    pairs, likely = letterpairs.likely_share(words)
    return Signs(
        count=kinds.total(),
        junk=_share(ordinary, _is_junk),
        symbols=_share(ordinary, _is_symbol),
        most_frequent=_share_of_most_frequent(ordinary),
        accents=_share(letters, lambda char: not char.isascii()),
        pairs=pairs,
        likely=likely,
        word_length=sum(map(len, words)) / max(1, len(words)),
    )


def _share(chars: Counter[str], is_meant: Callable[[str], bool]) -> float:
    meant = sum(count for char, count in chars.items() if is_meant(char))
    return meant / max(1, chars.total())


def _share_of_most_frequent(chars: Counter[str]) -> float:
    """Leave digits out: a column of zeros is no sign of damage."""
    return max((n for char, n in chars.items() if not char.isdigit()), default=0) / max(
        1, chars.total()
    )


def _is_junk(char: str) -> bool:
    return char == "\ufffd" or unicodedata.category(char) in _JUNK


def _is_symbol(char: str) -> bool:
    """Tell ASCII's and Latin 1's symbols; other scripts use theirs as letters, as Tibetan does."""
    return char < "\u0100" and unicodedata.category(char)[0] in "SP"


def _is_latin(char: str) -> bool:
    return char.isalpha() and (char < "\u0250" or "\u1e00" <= char <= "\u1eff")


def is_readable(signs: Signs, unmapped: float) -> bool:
    """Tell text from gibberish; unmapped is the share of characters the file has no Unicode for."""
    if signs.junk > _MOST_JUNK or signs.symbols > _MOST_SYMBOLS:
        return False
    if signs.count >= 20 and signs.most_frequent > _MOST_OF_ONE:
        return False
    if signs.accents > _MOST_ACCENTS and signs.pairs >= _ENOUGH_PAIRS:
        return False
    if signs.pairs >= _ENOUGH_PAIRS:
        return signs.likely >= _LEAST_LIKELY_PAIRS
    return unmapped <= _MOST_UNMAPPED


def is_good_ocr(signs: Signs) -> bool:
    """Tell whether readable text is good enough not to read the scan under it again."""
    if signs.symbols > _MOST_SYMBOLS_OF_OCR:
        return False
    return signs.pairs < _ENOUGH_PAIRS or (
        signs.likely >= _LEAST_LIKELY_PAIRS_OF_OCR and signs.word_length >= _SHORTEST_WORDS_OF_OCR
    )


def covers(lines: Sequence[pages.Line], sketch: NDArray[np.uint8], width: int) -> bool:
    """Tell whether the words lie over most of what looks like letters on the scan.

    sketch is the page at SKETCH_DPI; the lines are in pixels of a page image this wide.
    """
    grey = sketch if sketch.ndim == 2 else sketch[:, :, 1]  # green is close to what we see
    ink = _letters(grey)
    if not ink.any():
        return True
    scale = grey.shape[1] / width
    covered = np.zeros(grey.shape, np.uint8)
    for line in lines:
        for word in line.words:
            corners = np.array(word.quad) * scale
            cv2.fillConvexPoly(covered, corners.round().astype(np.int32), 1)
    near = cv2.dilate(covered, np.ones((5, 5), np.uint8)) > 0
    return bool(np.count_nonzero(ink & near) >= _LEAST_INK_COVERED * np.count_nonzero(ink))


def _letters(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Find the ink, light or dark, in spots that are as large as letters and small words are."""
    paper = cv2.medianBlur(np.ascontiguousarray(grey), 31)
    ink = (cv2.absdiff(grey, paper) > 40).astype(np.uint8)
    _, spots, sizes, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    wide, high = sizes[:, cv2.CC_STAT_WIDTH], sizes[:, cv2.CC_STAT_HEIGHT]
    fits = (high >= 3) & (high <= 45) & (wide <= 150) & (sizes[:, cv2.CC_STAT_AREA] >= 6)
    fits[0] = False  # what is not ink
    return np.asarray(fits[spots], dtype=np.bool_)
