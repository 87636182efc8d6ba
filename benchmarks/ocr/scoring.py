"""Score text against the ground truth after normalising both, and compare the scores of readers."""

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
    """Counts of errors and of characters and words in the ground truth; scores can be summed."""

    wrong_characters: int
    characters: int
    wrong_words: int
    words: int

    @property
    def cer(self) -> float:
        """Return the character error rate."""
        return self.wrong_characters / max(self.characters, 1)

    @property
    def wer(self) -> float:
        """Return the word error rate."""
        return self.wrong_words / max(self.words, 1)


def total(scores: Iterable[Score]) -> Score:
    """Sum scores."""
    parts = list(scores)
    return Score(
        sum(part.wrong_characters for part in parts),
        sum(part.characters for part in parts),
        sum(part.wrong_words for part in parts),
        sum(part.words for part in parts),
    )


def score(page: corpus.Page, text: str) -> Score:
    """Score the text that was read from a page."""
    truth = normalise(page.truth, joined=page.joined).split()
    read = normalise(text, joined=page.joined).split()
    if page.measure is corpus.Measure.BAG:
        return _score_bag(truth, read)
    return Score(
        Levenshtein.distance(" ".join(truth), " ".join(read)),
        len(" ".join(truth)),
        Levenshtein.distance(truth, read),
        len(truth),
    )


def normalise(text: str, *, joined: bool) -> str:
    """Normalise a text: NFC, '-' for the line-end hyphen, white space collapsed."""
    text = unicodedata.normalize("NFC", text).replace("¬", "-")
    if joined:
        text = _BROKEN_WORD.sub("", text)
    return " ".join(text.split())


def _score_bag(truth: Sequence[str], read: Sequence[str]) -> Score:
    """Pair equal words regardless of order, then the most similar; the rest is missing or extra.

    Spaces count as in ordered text, so that scores of both measures can be summed.
    """
    missing = list((Counter(truth) - Counter(read)).elements())
    extra = list((Counter(read) - Counter(truth)).elements())
    wrong = sum(cost for cost in _pair(missing, extra)) + abs(len(truth) - len(read))
    characters = sum(map(len, truth)) + max(len(truth) - 1, 0)
    return Score(wrong, characters, max(len(missing), len(extra)), len(truth))


def _pair(missing: Sequence[str], extra: Sequence[str]) -> Iterator[int]:
    """Pair the most similar words first; yield the cost of each pair and each unpaired word."""
    left, right = set(range(len(missing))), set(range(len(extra)))
    if left and right:
        costs = process.cdist(missing, extra, scorer=Levenshtein.distance)
        for flat in np.argsort(costs, axis=None, kind="stable"):
            one, other = divmod(int(flat), len(extra))
            # Two words with nothing in common count as one missing and one extra word.
            if one in left and other in right and costs[one, other] < len(missing[one]):
                left.remove(one)
                right.remove(other)
                yield int(costs[one, other])
    yield from (len(missing[one]) for one in left)
    yield from (len(extra[other]) for other in right)


# Comparison ---------------------------------------------------------------------------------------
# Bootstrap test: whether one reader is significantly worse than another.


_DRAWS = 10_000
_SEED = 1
_OUTSIDE = 0.05


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two CERs, and its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def is_worse(self) -> bool:
        """Return whether the first reader is significantly worse."""
        return self.low > 0


def compare(one: Sequence[Score], other: Sequence[Score]) -> Difference:
    """Compare the scores of the same pages by resampling the pages with replacement."""
    excess = np.array(
        [a.wrong_characters - b.wrong_characters for a, b in zip(one, other, strict=True)]
    )
    lengths = np.array([score.characters for score in one])
    drawn = np.random.default_rng(_SEED).integers(len(lengths), size=(_DRAWS, len(lengths)))
    values = excess[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    low, high = np.quantile(values, (_OUTSIDE / 2, 1 - _OUTSIDE / 2))
    return Difference(float(excess.sum() / lengths.sum()), float(low), float(high))
