"""Detect lines that are not in the expected language.

The script decides if it can. Languages of the same script are compared with lingua, if a line has
enough words other than names, brands, addresses and codes. Doubtful lines are not reported.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from pagewarden.checks.rules import normalization

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import lingua

ENGLISH = "en"


class UnsupportedLanguage(Exception):
    """The language is not supported."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its two-letter code, its code for OCR engines, and its scripts."""

    code: str
    name: str
    ocr_code: str
    scripts: tuple[str, ...] = ("Latin",)


_ALL = (
    Language("ar", "Arabic", "ara", ("Arabic",)),
    Language("bg", "Bulgarian", "bul", ("Cyrillic",)),
    Language("cs", "Czech", "ces"),
    Language("da", "Danish", "dan"),
    Language("de", "German", "deu"),
    Language("el", "Greek", "ell", ("Greek",)),
    Language("en", "English", "eng"),
    Language("es", "Spanish", "spa"),
    Language("et", "Estonian", "est"),
    Language("fa", "Persian", "fas", ("Arabic",)),
    Language("fi", "Finnish", "fin"),
    Language("fr", "French", "fra"),
    Language("he", "Hebrew", "heb", ("Hebrew",)),
    Language("hi", "Hindi", "hin", ("Devanagari",)),
    Language("hr", "Croatian", "hrv"),
    Language("hu", "Hungarian", "hun"),
    Language("id", "Indonesian", "ind"),
    Language("it", "Italian", "ita"),
    Language("ja", "Japanese", "jpn", ("Han", "Hiragana", "Katakana")),
    Language("ko", "Korean", "kor", ("Hangul", "Han")),
    Language("lt", "Lithuanian", "lit"),
    Language("lv", "Latvian", "lav"),
    Language("nb", "Norwegian", "nor"),
    Language("nl", "Dutch", "nld"),
    Language("pl", "Polish", "pol"),
    Language("pt", "Portuguese", "por"),
    Language("ro", "Romanian", "ron"),
    Language("ru", "Russian", "rus", ("Cyrillic",)),
    Language("sk", "Slovak", "slk"),
    Language("sl", "Slovenian", "slv"),
    Language("sv", "Swedish", "swe"),
    Language("th", "Thai", "tha", ("Thai",)),
    Language("tr", "Turkish", "tur"),
    Language("uk", "Ukrainian", "ukr", ("Cyrillic",)),
    Language("vi", "Vietnamese", "vie"),
    Language("zh", "Chinese", "zho", ("Han",)),
)
LANGUAGES: Mapping[str, Language] = {language.code: language for language in _ALL}
_ALIASES = {"no": "nb", "nn": "nb", "iw": "he", "in": "id"}
# Languages that a line is compared with, besides the expected one. More of them would take more
# memory (about 25 MB each) and misclassify short lines as rare languages.
_RIVALS = {
    "Latin": ("en", "fr", "de", "es", "it", "pt", "nl", "pl", "sv", "tr"),
    "Cyrillic": ("ru", "uk", "bg"),
    "Arabic": ("ar", "fa"),
}
# Too similar to distinguish by a single line.
_CLOSE_RELATIVES = (
    {"da", "nb", "sv"},
    {"cs", "sk"},
    {"es", "pt", "it"},
    {"ru", "uk", "bg"},
    {"hr", "sl"},
)

BRANDS = frozenset(
    {"airplay", "amazon", "android", "apple", "bluetooth", "chrome", "dropbox", "ebay", "facebook",
     "firefox", "github", "gmail", "google", "instagram", "ios", "ipad", "iphone", "klarna",
     "linkedin", "linux", "mac", "macos", "mastercard", "microsoft", "netflix", "outlook",
     "paypal", "pagewarden", "safari", "samsung", "skype", "slack", "sony", "spotify", "telegram",
     "tiktok", "twitter", "visa", "whatsapp", "wi-fi", "wifi", "wikipedia", "windows", "wlan",
     "xbox", "youtube", "zoom"}
)  # fmt: skip
_SCRIPTS = {
    name: regex.compile(rf"\p{{Script={name}}}")
    for name in sorted({script for language in _ALL for script in language.scripts})
}
_NON_WORDS = regex.compile(r"\S*[@/\\_\d{}%<>$=]\S*|\w+\.\w+")
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}'\u2019\-]*")
_CAMEL = regex.compile(r"\p{Ll}\p{Lu}")
# A character of these scripts is a word, so a single one is enough.
DENSE_SCRIPTS = {"Han", "Hiragana", "Katakana", "Hangul"}
MIN_LETTERS = 4
# By number of words: the minimum confidence of the other language, and its minimum ratio to that of
# the expected one. On 4,500 short strings of programs in nine languages, this detects 87 % of the
# English lines (15 % of single words, 99 % of four or more) and misreports 1 of 60 translated ones.
_THRESHOLDS = {1: (0.6, 10.0), 2: (0.2, 3.0), 3: (0.2, 2.0)}
_THRESHOLDS_LONG = (0.2, 1.5)


def find_language(code: str) -> Language:
    """Return the language of a code with or without a region: fr, fr-CA, fr_CA."""
    first = regex.split(r"[-_]", code.strip().lower())[0]
    found = LANGUAGES.get(_ALIASES.get(first, first))
    if found is None:
        raise UnsupportedLanguage(
            f"{code!r} is not a supported language; choose from {', '.join(LANGUAGES)}"
        )
    return found


def extract_words(text: str, allowed: Collection[str] = ()) -> list[str]:
    """Return the words that indicate a language: no brands, addresses, codes or numbers.

    `allowed` words, as returned by normalize_soft, are skipped, too.
    """
    bare = _NON_WORDS.sub(" ", text)
    return [word for word in _WORD.findall(bare) if not _is_neutral(word, allowed)]


def _is_neutral(word: str, allowed: Collection[str]) -> bool:
    soft = normalization.normalize_soft(word)
    acronym = word.isupper() and len(word) <= 4
    return acronym or soft in BRANDS or soft in allowed or _CAMEL.search(word) is not None


def find_foreign_language(
    text: str, expected: Language, allowed: Collection[str] = ()
) -> Language | None:
    """Return the language of a text that is certainly not in the expected one; or None."""
    words = extract_words(text, allowed)
    letters = "".join(words)
    if not letters:
        return None
    script, count = _find_main_script(letters)
    if script not in _SCRIPTS or (count < MIN_LETTERS and script not in DENSE_SCRIPTS):
        return None
    if script not in expected.scripts:
        return _guess_language(script, words)
    return _compare_with_rivals(words, script, expected) if script in _RIVALS else None


def _find_main_script(letters: str) -> tuple[str, int]:
    """Return the most frequent script and its number of letters; kana with Han is Japanese."""
    counts = Counter(map(find_script, letters))
    kana = counts["Hiragana"] + counts["Katakana"]
    return ("Hiragana", kana) if kana else counts.most_common(1)[0]


def find_script(letter: str) -> str:
    """Return the script of a letter, or an empty string if no supported language uses it."""
    return next((name for name, one in _SCRIPTS.items() if one.match(letter)), "")


def _guess_language(script: str, words: list[str]) -> Language | None:
    """Return the most likely language of a script."""
    if script in _RIVALS:
        confidences = _rate_languages(" ".join(words), _RIVALS[script])
        return LANGUAGES[max(confidences, key=lambda code: confidences[code])]
    return next(language for language in reversed(_ALL) if script in language.scripts)


def _compare_with_rivals(words: list[str], script: str, expected: Language) -> Language | None:
    rivals = tuple(dict.fromkeys((expected.code, *_RIVALS[script])))
    confidences = _rate_languages(" ".join(words), rivals)
    best = max(confidences, key=lambda code: confidences[code])
    if best == expected.code or any({best, expected.code} <= group for group in _CLOSE_RELATIVES):
        return None
    minimum, ratio = _THRESHOLDS.get(len(words), _THRESHOLDS_LONG)
    is_certain = confidences[best] >= max(minimum, ratio * confidences[expected.code])
    return LANGUAGES[best] if is_certain else None


def _rate_languages(text: str, codes: tuple[str, ...]) -> dict[str, float]:
    """Return the probability of each language; the sum is 1."""
    values = _load_detector(codes).compute_language_confidence_values(text)
    return {value.language.iso_code_639_1.name.lower(): value.value for value in values}


@functools.cache
def _load_detector(codes: tuple[str, ...]) -> lingua.LanguageDetector:
    import lingua  # noqa: PLC0415  # its models take 100 MB, and most commands do not need them

    iso_codes = [lingua.IsoCode639_1.from_str(code.upper()) for code in codes]
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*iso_codes).build()
