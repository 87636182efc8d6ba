"""Languages of documents: codes for engines and search, scripts, and a guess from text.

Engines use three-letter codes (ISO 639-3, or those of Tesseract's data), search uses two-letter
codes (ISO 639-1).
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SEARCH_CODES = {
    "ara": "ar", "bod": "bo", "bul": "bg", "cat": "ca", "ces": "cs", "chi_sim": "zh",
    "chi_tra": "zh", "dan": "da", "deu": "de", "ell": "el", "eng": "en", "est": "et",
    "fas": "fa", "fin": "fi", "fra": "fr", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu",
    "hye": "hy", "ind": "id", "ita": "it", "jpn": "ja", "kat": "ka", "kor": "ko", "lav": "lv",
    "lit": "lt", "nep": "ne", "nld": "nl", "nob": "nb", "nor": "no", "pol": "pl", "por": "pt",
    "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "srp": "sr", "swe": "sv",
    "tam": "ta", "tha": "th", "tur": "tr", "ukr": "uk", "vie": "vi", "yid": "yi", "zho": "zh",
}  # fmt: skip
_ENGINE_CODES = {search: engine for engine, search in _SEARCH_CODES.items()}
_SEPARATORS = re.compile(r"[\s,;+]+")

# Common words of two or more letters; a word of several languages counts for each of them.
_COMMON_WORDS = {
    "ces": "je se že na to do jako by ale jsem ve není jsou pro po který jeho také při nebo",
    "dan": "og at det er en til af på den der for ikke som med har jeg de var et men han",
    "deu": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch",
    "eng": "the of and to in that is was he for it with as his on be at by had not",
    "fra": "de la le et les des en un du une que est pour qui dans au par sur il ne pas",
    "ita": "di il la che in un per una del non con da le si dei al sono gli della alla",
    "lat": "et in est non ad ut cum quod qui ex sed quae si ab esse autem per enim",
    "nld": "de van het een en in is dat op te zijn met voor niet aan er om ook",
    "pol": "na do się nie jest to że jak po co od za ale dla przez jego już",
    "por": "de que do da em um para com não uma os no se na por mais as dos ao",
    "slk": "na sa je to že do ako ale po aj za bol pre nie ktorý jeho keď však",
    "spa": "de la que el en los se del las un por con no una su para es al lo",
    "swe": "och att det som en på är av för med den till inte har de ett om jag",
}
_COMMON_WORD_SETS = {name: frozenset(words.split()) for name, words in _COMMON_WORDS.items()}
_MIN_HITS = 3

_IDEOGRAPHIC = frozenset({"zho", "cmn", "yue", "lzh", "jpn", "chi_sim", "chi_tra", "jpn_vert"})
# Languages whose script or accents the PP-OCR models do not support.
_OTHER_SCRIPTS = frozenset({
    "amh", "ara", "asm", "bel", "ben", "bod", "bul", "chr", "div", "dzo", "ell", "fas", "grc",
    "guj", "heb", "hin", "hye", "iku", "kan", "kat", "kaz", "khm", "kir", "kor", "lao", "mal",
    "mar", "mkd", "mon", "mya", "nep", "ori", "pan", "pus", "rus", "san", "sin", "snd", "srp",
    "syr", "tam", "tel", "tgk", "tha", "tir", "uig", "ukr", "urd", "yid",
})  # fmt: skip

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


class Script(enum.Enum):
    """The script of a language, as far as it determines the model."""

    LATIN = enum.auto()
    IDEOGRAPHS = enum.auto()
    OTHER = enum.auto()


def to_engine_codes(text: str | None) -> tuple[str, ...]:
    """Parse "deu", "fr-CA", "de, fr" or "deu+frk"; unknown codes are not changed."""
    return tuple(_to_engine_code(word) for word in _SEPARATORS.split(text or "") if word)


def to_search_code(text: str | None) -> str | None:
    """Return the code of the first language for search; None if there is none."""
    codes = to_engine_codes(text)
    return _SEARCH_CODES.get(codes[0], codes[0]) if codes else None


def _to_engine_code(word: str) -> str:
    code = word.lower()
    return _ENGINE_CODES.get(re.split("[-_]", code)[0], code)


def guess_language(text: str) -> str | None:
    """Guess the language of a text in Latin letters by common words; None if uncertain."""
    words = Counter(re.findall(r"[^\W\d_]{2,}", text.lower()))
    hits = {name: sum(words[word] for word in common) for name, common in _COMMON_WORD_SETS.items()}
    best, second = sorted(hits, key=lambda name: hits[name], reverse=True)[:2]
    return best if hits[best] >= max(_MIN_HITS, hits[second] + 1) else None


def find_script(languages: Iterable[str]) -> Script | None:
    """Return the script of the first language; None if there is none."""
    first = next(iter(languages), None)
    if first is None:
        return None
    if first in _IDEOGRAPHIC:
        return Script.IDEOGRAPHS
    return Script.OTHER if first in _OTHER_SCRIPTS else Script.LATIN


def is_right_to_left(languages: Iterable[str]) -> bool:
    """Tell whether the first language is written from right to left."""
    return next(iter(languages), None) in _RIGHT_TO_LEFT


def is_latin(character: str) -> bool:
    """Tell whether a character occurs in Latin text; includes digits and symbols."""
    return any(first <= ord(character) <= last for first, last in _LATIN_RANGES)


def accept_any_character(_character: str) -> bool:
    """Accept every character."""
    return True
