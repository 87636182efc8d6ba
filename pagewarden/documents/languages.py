"""Languages of documents: whatever people call them, as engines and as the search call them.

Engines know codes of three letters (ISO 639-3, or those of Tesseract's data), the search knows
those of two (ISO 639-1).
"""

from __future__ import annotations

import re

_SHORT_OF = {
    "ara": "ar", "bod": "bo", "bul": "bg", "cat": "ca", "ces": "cs", "chi_sim": "zh",
    "chi_tra": "zh", "dan": "da", "deu": "de", "ell": "el", "eng": "en", "est": "et",
    "fas": "fa", "fin": "fi", "fra": "fr", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu",
    "hye": "hy", "ind": "id", "ita": "it", "jpn": "ja", "kat": "ka", "kor": "ko", "lav": "lv",
    "lit": "lt", "nep": "ne", "nld": "nl", "nob": "nb", "nor": "no", "pol": "pl", "por": "pt",
    "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "srp": "sr", "swe": "sv",
    "tam": "ta", "tha": "th", "tur": "tr", "ukr": "uk", "vie": "vi", "yid": "yi", "zho": "zh",
}  # fmt: skip
_LONG_OF = {short: long for long, short in _SHORT_OF.items()}
_SEPARATORS = re.compile(r"[\s,;+]+")


def for_engine(text: str | None) -> tuple[str, ...]:
    """Give the codes of "deu", "fr-CA", "de, fr" or "deu+frk"; what nobody knows stays as it is."""
    return tuple(_long(word) for word in _SEPARATORS.split(text or "") if word)


def for_search(text: str | None) -> str | None:
    """Name the first of the languages as the search does; None when there is none."""
    codes = for_engine(text)
    return _SHORT_OF.get(codes[0], codes[0]) if codes else None


def _long(word: str) -> str:
    code = word.lower()
    return _LONG_OF.get(re.split("[-_]", code)[0], code)
