"""Make texts equal that differ only in how they are written down.

Strict undoes what nobody sees or what a keyboard decides: composed or decomposed letters, kinds of
quotes, dashes and spaces, ligatures, characters without width. Soft also undoes case, diacritics
and forms of compatibility. Whatever is equal strictly is equal softly. vectors.json has examples.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Callable

_SPACES = regex.compile(r"\s+")
_UNSEEN = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cc}]+")
# Latin ligatures, and the shapes that Hebrew and Arabic letters take beside each other.
_SHAPES = regex.compile("[\ufb00-\ufb06\ufb1d-\ufdff\ufe70-\ufeff]")
_DOUBLE_QUOTES = regex.compile("[\u00ab\u00bb\u201c-\u201f\u2033\u301d\u301e\uff02]")
_SINGLE_QUOTES = regex.compile("[`\u00b4\u02b9\u02bc\u2018-\u201b\u2032\u2039\u203a\uff07]")
_DASHES = regex.compile(r"[\p{Dash_Punctuation}\u2212]")
# Elsewhere marks are no ornament: without them か is が, and words of Hindi lose their vowels.
_MARKED = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}\p{Hebrew}\p{Arabic}])\p{Mn}+")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "ـ": ""}
)


def normalize_strict(text: str) -> str:
    """Undo differences that a reader of the text would not call one."""
    return _settled(_strictly, text)


def normalize_soft(text: str) -> str:
    """Undo case, diacritics and forms of compatibility, too."""
    return _settled(_softly, normalize_strict(text))


def _settled(step: Callable[[str], str], text: str) -> str:
    """Repeat a step until it changes nothing; folding one character may uncover another."""
    while (after := step(text)) != text:
        text = after
    return text


def _strictly(text: str) -> str:
    text = _SHAPES.sub(lambda shape: unicodedata.normalize("NFKC", shape[0]), text)
    text = _DOUBLE_QUOTES.sub('"', _SINGLE_QUOTES.sub("'", _DASHES.sub("-", text)))
    text = _SPACES.sub(" ", text.replace("…", "..."))
    return unicodedata.normalize("NFC", _UNSEEN.sub("", text)).strip()


def _softly(text: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    text = _MARKED.sub(r"\1", text).translate(_LETTERS)
    text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    return _strictly(unicodedata.normalize("NFKC", text))
