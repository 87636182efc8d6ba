"""Which characters and which languages belong together."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Script(enum.Enum):
    """What the reader of a page has to know: letters alone, ideographs too, or neither."""

    LATIN = enum.auto()
    IDEOGRAPHS = enum.auto()
    OTHER = enum.auto()


_IDEOGRAPHS = frozenset({"zho", "cmn", "yue", "lzh", "jpn", "chi_sim", "chi_tra", "jpn_vert"})

# Written in scripts of which the PP-OCR networks know nothing, or not the accents.
_OTHER = frozenset(
    {
        "amh",
        "ara",
        "asm",
        "bel",
        "ben",
        "bod",
        "bul",
        "chr",
        "div",
        "dzo",
        "ell",
        "fas",
        "grc",
        "guj",
        "heb",
        "hin",
        "hye",
        "iku",
        "kan",
        "kat",
        "kaz",
        "khm",
        "kir",
        "kor",
        "lao",
        "mal",
        "mar",
        "mkd",
        "mon",
        "mya",
        "nep",
        "ori",
        "pan",
        "pus",
        "rus",
        "san",
        "sin",
        "snd",
        "srp",
        "syr",
        "tam",
        "tel",
        "tgk",
        "tha",
        "tir",
        "uig",
        "ukr",
        "urd",
        "yid",
    }
)

_RIGHT_TO_LEFT = frozenset({"ara", "div", "fas", "heb", "pus", "snd", "syr", "uig", "urd", "yid"})

_LATIN_RANGES = (
    (0x0020, 0x017F),
    (0x0218, 0x021B),
    (0x2010, 0x2044),
    (0x2070, 0x208E),
    (0x20A0, 0x20BF),
    (0x2100, 0x2193),
    (0x2200, 0x2265),
    (0x25A0, 0x25CF),
)


def of(languages: Iterable[str]) -> Script | None:
    """Name the script of the first language; None when none is given."""
    first = next(iter(languages), None)
    if first is None:
        return None
    if first in _IDEOGRAPHS:
        return Script.IDEOGRAPHS
    return Script.OTHER if first in _OTHER else Script.LATIN


def runs_right_to_left(languages: Iterable[str]) -> bool:
    """Tell whether the first language is written from right to left."""
    return next(iter(languages), None) in _RIGHT_TO_LEFT


def is_latin(character: str) -> bool:
    """Tell whether it can stand in a text of Latin letters, digits and signs included."""
    return any(first <= ord(character) <= last for first, last in _LATIN_RANGES)


def is_any(_character: str) -> bool:
    """Take every character."""
    return True
