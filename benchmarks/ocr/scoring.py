"""How far a reading is from the truth after normalisation of both, and comparison of readings."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from benchmarks.ocr import corpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_BROKEN_WORD = re.compile(r"(?<=\w)[-\u00ad]\s*\n\s*(?=\w)")


@dataclass(frozen=True, slots=True)
class Score:
    """Errors and how many there could have been; scores of several pages add up."""

    wrong_characters: int
    characters: int
    wrong_words: int
    words: int

    @property
    def cer(self) -> float:
        """Divide wrong characters by those of the truth."""
        return self.wrong_characters / max(self.characters, 1)

    @property
    def wer(self) -> float:
        """Divide wrong words by those of the truth."""
        return self.wrong_words / max(self.words, 1)


def total(scores: Iterable[Score]) -> Score:
    """Add up."""
    found = list(scores)
    return Score(
        sum(score.wrong_characters for score in found),
        sum(score.characters for score in found),
        sum(score.wrong_words for score in found),
        sum(score.words for score in found),
    )


def score(page: corpus.Page, text: str) -> Score:
    """Compare what was read with what stands on the page."""
    truth = normalise(page.truth, joined=page.joined).split()
    read = normalise(text, joined=page.joined).split()
    if page.measure is corpus.Measure.BAG:
        return _bag(truth, read)
    return Score(
        Levenshtein.distance(" ".join(truth), " ".join(read)),
        len(" ".join(truth)),
        Levenshtein.distance(truth, read),
        len(truth),
    )


def normalise(text: str, *, joined: bool) -> str:
    """Bring both sides to one form: NFC, the line-end hyphen as '-', white space folded."""
    text = unicodedata.normalize("NFC", text).replace("¬", "-")
    if joined:
        text = _BROKEN_WORD.sub("", text)
    return " ".join(text.split())


def _bag(truth: Sequence[str], read: Sequence[str]) -> Score:
    """Pair equal words wherever they stand, then the most alike; what is left is missing or extra.

    Spaces count as in a text in order, so that the figures of both kinds can be added up.
    """
    missing = list((Counter(truth) - Counter(read)).elements())
    extra = list((Counter(read) - Counter(truth)).elements())
    wrong = sum(cost for cost in _pair(missing, extra)) + abs(len(truth) - len(read))
    characters = sum(map(len, truth)) + max(len(truth) - 1, 0)
    return Score(wrong, characters, max(len(missing), len(extra)), len(truth))


def _pair(missing: Sequence[str], extra: Sequence[str]) -> Iterator[int]:
    """Pair the most alike first, and give what each pair and each word left alone costs."""
    left, right = set(range(len(missing))), set(range(len(extra)))
    if left and right:
        costs = process.cdist(missing, extra, scorer=Levenshtein.distance)
        for flat in np.argsort(costs, axis=None, kind="stable"):
            one, other = divmod(int(flat), len(extra))
            # Two words with nothing in common are one missing and one extra.
            if one in left and other in right and costs[one, other] < len(missing[one]):
                left.remove(one)
                right.remove(other)
                yield int(costs[one, other])
    yield from (len(missing[one]) for one in left)
    yield from (len(extra[other]) for other in right)


# Comparison ---------------------------------------------------------------------------------------
# Whether one reader is worse than another, or only had bad luck with its pages.


_DRAWS = 10_000
_SEED = 1
_OUTSIDE = 0.05


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much the CER of one is above that of the other, and the 95 % around it."""

    mean: float
    low: float
    high: float

    @property
    def worse(self) -> bool:
        """Tell whether the one is worse beyond doubt."""
        return self.low > 0


def compare(one: Sequence[Score], other: Sequence[Score]) -> Difference:
    """Draw as many of the same pages, with repetition, again and again."""
    excess = np.array(
        [a.wrong_characters - b.wrong_characters for a, b in zip(one, other, strict=True)]
    )
    lengths = np.array([score.characters for score in one])
    drawn = np.random.default_rng(_SEED).integers(len(lengths), size=(_DRAWS, len(lengths)))
    values = excess[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    low, high = np.quantile(values, (_OUTSIDE / 2, 1 - _OUTSIDE / 2))
    return Difference(float(excess.sum() / lengths.sum()), float(low), float(high))
