"""Two readings of one line made into one: where they differ, the likelier words are taken."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

from pagewarden.reading.lines import readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# A logistic model of whether Tesseract's words are nearer the truth than PP-OCR's, fitted on half
# of the documents of a corpus of real scans. More features (mean confidences, accents, punctuation,
# lengths) made it no better on documents it had not seen; see docs/decisions/0005.
_BIAS = -0.57
_STRONG = -3.42
_FAST = 2.52
_LISTED = 0.74

# Stands for the confidence where a reader saw no word at all.
_NO_WORD = 0.7


def combine(strong: readings.Reading, fast: readings.Reading) -> readings.Reading:
    """Take words both have read alike, and of the others the likelier."""
    matcher = difflib.SequenceMatcher(
        None,
        [word.text for word in strong.words],
        [word.text for word in fast.words],
        autojunk=False,
    )
    chosen: list[readings.Span] = []
    for tag, begin, end, fast_begin, fast_end in matcher.get_opcodes():
        ours, others = strong.words[begin:end], fast.words[fast_begin:fast_end]
        if tag == "equal":
            chosen.extend(_agreed(ours, others))
        else:
            chosen.extend(others if _fast_is_likelier(ours, others) else ours)
    return readings.Reading(tuple(chosen))


def _agreed(
    ours: Sequence[readings.Span], others: Sequence[readings.Span]
) -> Iterator[readings.Span]:
    for one, other in zip(ours, others, strict=True):
        yield replace(one, confidence=max(one.confidence, other.confidence))


def _fast_is_likelier(strong: Sequence[readings.Span], fast: Sequence[readings.Span]) -> bool:
    listed = sum(word.listed for word in fast) / len(fast) if fast else 0.0
    evidence = _BIAS + _STRONG * _weakest(strong) + _FAST * _weakest(fast) + _LISTED * listed
    return evidence > 0


def _weakest(words: Sequence[readings.Span]) -> float:
    return min((word.weakest for word in words), default=_NO_WORD)
