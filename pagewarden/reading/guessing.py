"""Which language a page is in, when nobody has said."""

from __future__ import annotations

import re
from collections import Counter

# Common words of two letters and more; one of several languages counts for each of them.
_COMMON = {
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
_WORDS = {language: frozenset(words.split()) for language, words in _COMMON.items()}

_LEAST_HITS = 3


def language(text: str) -> str | None:
    """Guess the language of a text in Latin letters by its common words; None if in doubt."""
    words = Counter(re.findall(r"[^\W\d_]{2,}", text.lower()))
    hits = {name: sum(words[word] for word in common) for name, common in _WORDS.items()}
    best, second = sorted(hits, key=lambda name: hits[name], reverse=True)[:2]
    return best if hits[best] >= max(_LEAST_HITS, hits[second] + 1) else None
