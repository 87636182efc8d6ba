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
_BIAS = -0.22
_STRONG = -3.86
_FAST = 2.52
_LISTED = 0.84

# Stands for the confidence where a reader saw no word at all.
_NO_WORD = 0.7


def combine(strong: readings.Reading, fast: readings.Reading) -> readings.Reading:
    """Take words both have read alike, and of the others the likelier."""
    chosen: list[readings.Span] = []
    for ours, others in _beside(strong.words, fast.words):
        if [word.text for word in ours] == [word.text for word in others]:
            chosen.extend(_agreed(ours, others))
        else:
            chosen.extend(others if _fast_is_likelier(ours, others) else ours)
    return readings.Reading(tuple(chosen))


def _beside(
    strong: Sequence[readings.Span], fast: Sequence[readings.Span]
) -> Iterator[tuple[Sequence[readings.Span], Sequence[readings.Span]]]:
    """Put side by side what stands for the same part of the line, word by word where possible."""
    ours, others = ([word.text for word in words] for words in (strong, fast))
    matcher = difflib.SequenceMatcher(None, ours, others, autojunk=False)
    for _, begin, end, fast_begin, fast_end in matcher.get_opcodes():
        if end - begin == fast_end - fast_begin:
            for one, other in zip(strong[begin:end], fast[fast_begin:fast_end], strict=True):
                yield [one], [other]
        else:
            yield strong[begin:end], fast[fast_begin:fast_end]


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
