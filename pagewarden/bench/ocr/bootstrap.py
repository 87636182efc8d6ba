"""Whether one reader is worse than another, or only had bad luck with its pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.bench.ocr import scoring

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


def compare(one: Sequence[scoring.Score], other: Sequence[scoring.Score]) -> Difference:
    """Draw as many of the same pages, with repetition, again and again."""
    excess = np.array(
        [a.wrong_characters - b.wrong_characters for a, b in zip(one, other, strict=True)]
    )
    lengths = np.array([score.characters for score in one])
    drawn = np.random.default_rng(_SEED).integers(len(lengths), size=(_DRAWS, len(lengths)))
    values = excess[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    low, high = np.quantile(values, (_OUTSIDE / 2, 1 - _OUTSIDE / 2))
    return Difference(float(excess.sum() / lengths.sum()), float(low), float(high))
