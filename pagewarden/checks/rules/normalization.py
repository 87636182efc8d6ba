"""Normalize texts that differ only in their encoding or typography.

Strict normalization unifies invisible and typographic differences: composed and decomposed
letters, kinds of quotes, dashes and spaces, ligatures, zero-width characters. Soft normalization
also removes case, diacritics and compatibility forms; strictly equal texts are softly equal, too.
vectors.json has examples.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Callable

_SPACES = regex.compile(r"\s+")
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cc}]+")
# Latin ligatures, and contextual forms of Hebrew and Arabic letters.
_PRESENTATION_FORMS = regex.compile("[\ufb00-\ufb06\ufb1d-\ufdff\ufe70-\ufeff]")
_DOUBLE_QUOTES = regex.compile("[\u00ab\u00bb\u201c-\u201f\u2033\u301d\u301e\uff02]")
_SINGLE_QUOTES = regex.compile("[`\u00b4\u02b9\u02bc\u2018-\u201b\u2032\u2039\u203a\uff07]")
_DASHES = regex.compile(r"[\p{Dash_Punctuation}\u2212]")
# In other scripts marks are essential: without them が becomes か, and Hindi loses its vowels.
_COMBINING_MARKS = regex.compile(r"([\p{Latin}\p{Greek}\p{Cyrillic}\p{Hebrew}\p{Arabic}])\p{Mn}+")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "ـ": ""}
)


def normalize_strict(text: str) -> str:
    """Unify invisible and typographic differences."""
    return _apply_until_stable(_normalize_strict_once, text)


def normalize_soft(text: str) -> str:
    """Normalize strictly, and remove case, diacritics and compatibility forms."""
    return _apply_until_stable(_normalize_soft_once, normalize_strict(text))


def _apply_until_stable(step: Callable[[str], str], text: str) -> str:
    """Repeat a step until nothing changes; folding one character may create another."""
    while (new_text := step(text)) != text:
        text = new_text
    return text


def _normalize_strict_once(text: str) -> str:
    text = _PRESENTATION_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text = _DOUBLE_QUOTES.sub('"', _SINGLE_QUOTES.sub("'", _DASHES.sub("-", text)))
    text = _SPACES.sub(" ", text.replace("…", "..."))
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).strip()


def _normalize_soft_once(text: str) -> str:
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    text = _COMBINING_MARKS.sub(r"\1", text).translate(_LETTERS)
    text = "".join(str(unicodedata.decimal(character, character)) for character in text)
    return _normalize_strict_once(unicodedata.normalize("NFKC", text))
