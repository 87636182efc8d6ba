"""Which language a page is in, when nobody has said."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# The commonest short words; a word of several languages counts for each of them.
_COMMON = {
    "ces": "a je se že na to v s z do jako by ale jsem ve není jsou pro po",
    "cos": "di a u è in e chì da per ùn hè i si cù o l' à ma",
    "dan": "og i at det er en til af på den der for ikke som med har jeg de var",
    "deu": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch",
    "eng": "the of and to a in that is was he for it with as his on be at by had not",
    "fra": "de la le et les des en un du une que est pour qui dans au par sur il ne pas l d",
    "ita": "di e il la che in un a per è una del non con da le si dei al sono gli",
    "lat": "et in est non ad ut cum quod qui ex sed quae si ab esse de autem per",
    "pol": "i w na z do się nie jest to że o jak po co od za ale dla",
    "por": "de a o que e do da em um para com não uma os no se na por mais as dos",
    "slk": "a v na sa je to že s z do o ako ale po aj za bol pre nie",
    "spa": "de la que el en y a los se del las un por con no una su para es al lo",
    "swe": "och i att det som en på är av för med den till inte har de ett om",
    "nld": "de van het een en in is dat op te zijn met voor niet aan er om",
}
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}

_LEAST_HITS = 3

# Languages by the name Tesseract gives to their script.
_BY_SCRIPT = {
    "Arabic": ("ara", "fas", "urd"),
    "Armenian": ("hye",),
    "Bengali": ("ben",),
    "Cyrillic": ("rus", "ukr", "bul", "srp"),
    "Devanagari": ("hin", "san", "mar", "nep"),
    "Fraktur": ("frk",),
    "Georgian": ("kat",),
    "Greek": ("ell", "grc"),
    "Hangul": ("kor",),
    "Hebrew": ("heb", "yid"),
    "Korean": ("kor",),
    "Tamil": ("tam",),
    "Thai": ("tha",),
    "Tibetan": ("bod", "dzo"),
}


def language(text: str) -> str | None:
    """Guess the language of a text in Latin letters by its commonest words."""
    words = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    hits = {name: sum(words[word] for word in common) for name, common in _WORDS.items()}
    best = max(hits, key=lambda name: hits[name])
    return best if hits[best] >= _LEAST_HITS else None


def languages_of(script: str | None) -> Sequence[str]:
    """List languages that are written in a script."""
    return _BY_SCRIPT.get(script or "", ())
