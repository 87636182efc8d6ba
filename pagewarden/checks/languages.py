"""Which language a line is in, as far as so few letters can tell.

The script decides where it can. Between languages of one script lingua does, and only where a line
has enough words that are no names, brands, addresses or codes; what is in doubt is left alone.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from pagewarden.checks import normalizing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import lingua

ENGLISH = "en"


class Unknown(Exception):
    """It is no language that can be checked."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its code of two letters, the one that engines know it by, and its scripts."""

    code: str
    name: str
    reading: str
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
# What a line is compared with beside the language it should be in: more would take more memory
# (each some 25 MB) and would mistake short lines for languages that nobody has heard of.
_RIVALS = {
    "Latin": ("en", "fr", "de", "es", "it", "pt", "nl", "pl", "sv", "tr"),
    "Cyrillic": ("ru", "uk", "bg"),
    "Arabic": ("ar", "fa"),
}
# So alike that a line of either proves nothing.
_TWINS = ({"da", "nb", "sv"}, {"cs", "sk"}, {"es", "pt", "it"}, {"ru", "uk", "bg"}, {"hr", "sl"})

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
_NO_WORDS = regex.compile(r"\S*[@/\\_\d{}%<>$=]\S*|\w+\.\w+")
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}'\u2019\-]*")
_CAMEL = regex.compile(r"\p{Ll}\p{Lu}")
# Here a character is a word, so that one is enough to tell.
DENSE = {"Han", "Hiragana", "Katakana", "Hangul"}
FEWEST_LETTERS = 4
# By how many words a line has: the least share that lingua gives the other language, and how many
# times that of ours it is. On 4,500 short strings of programs in nine languages this finds 87 of
# 100 lines in English (15 of single words, 99 of four and more), and calls 1 of 60 translated
# ones foreign.
_PROOF = {1: (0.6, 10.0), 2: (0.2, 3.0), 3: (0.2, 2.0)}
_PROOF_OF_MANY = (0.2, 1.5)


def find(code: str) -> Language:
    """Find a language by its code, with or without a region: fr, fr-CA, fr_CA."""
    first = regex.split(r"[-_]", code.strip().lower())[0]
    found = LANGUAGES.get(_ALIASES.get(first, first))
    if found is None:
        raise Unknown(f"{code!r} is no language that can be checked; choose {', '.join(LANGUAGES)}")
    return found


def words(text: str, allowed: Collection[str] = ()) -> list[str]:
    """Take from a text what tells its language: no names of brands, addresses, codes, numbers.

    allowed are words, too, that may stand in any language, as normalize_soft gives them.
    """
    bare = _NO_WORDS.sub(" ", text)
    return [word for word in _WORD.findall(bare) if not _is_neutral(word, allowed)]


def _is_neutral(word: str, allowed: Collection[str]) -> bool:
    soft = normalizing.normalize_soft(word)
    acronym = word.isupper() and len(word) <= 4
    return acronym or soft in BRANDS or soft in allowed or _CAMEL.search(word) is not None


def foreign(text: str, expected: Language, allowed: Collection[str] = ()) -> Language | None:
    """Name the language of a text that is certainly not in the expected one; None otherwise."""
    telling = words(text, allowed)
    letters = "".join(telling)
    if not letters:
        return None
    script, count = _main_script(letters)
    if script not in _SCRIPTS or (count < FEWEST_LETTERS and script not in DENSE):
        return None
    if script not in expected.scripts:
        return _of_script(script, telling)
    return _among_rivals(telling, script, expected) if script in _RIVALS else None


def _main_script(letters: str) -> tuple[str, int]:
    """Name the script that most letters are of, and how many are; kana beside Han is Japanese."""
    counts = Counter(map(script_of, letters))
    kana = counts["Hiragana"] + counts["Katakana"]
    return ("Hiragana", kana) if kana else counts.most_common(1)[0]


def script_of(letter: str) -> str:
    """Name the script of a letter; an empty name for one that no language here has."""
    return next((name for name, one in _SCRIPTS.items() if one.match(letter)), "")


def _of_script(script: str, telling: list[str]) -> Language | None:
    """Name the likeliest language of a script."""
    if script in _RIVALS:
        shares = _shares(" ".join(telling), _RIVALS[script])
        return LANGUAGES[max(shares, key=lambda code: shares[code])]
    return next(language for language in reversed(_ALL) if script in language.scripts)


def _among_rivals(telling: list[str], script: str, expected: Language) -> Language | None:
    rivals = tuple(dict.fromkeys((expected.code, *_RIVALS[script])))
    shares = _shares(" ".join(telling), rivals)
    best = max(shares, key=lambda code: shares[code])
    if best == expected.code or any({best, expected.code} <= twins for twins in _TWINS):
        return None
    least, times = _PROOF.get(len(telling), _PROOF_OF_MANY)
    certain = shares[best] >= max(least, times * shares[expected.code])
    return LANGUAGES[best] if certain else None


def _shares(text: str, codes: tuple[str, ...]) -> dict[str, float]:
    """Say how likely each language is, 0 to 1, all of them together 1."""
    values = _detector(codes).compute_language_confidence_values(text)
    return {value.language.iso_code_639_1.name.lower(): value.value for value in values}


@functools.cache
def _detector(codes: tuple[str, ...]) -> lingua.LanguageDetector:
    import lingua  # noqa: PLC0415  # its models are 100 MB, which most commands never need

    wanted = [lingua.IsoCode639_1.from_str(code.upper()) for code in codes]
    return lingua.LanguageDetectorBuilder.from_iso_codes_639_1(*wanted).build()
