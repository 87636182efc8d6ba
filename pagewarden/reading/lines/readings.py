"""What a reader makes of a line: words, how sure it is of each, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pagewarden.reading import bidi, pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.reading.lines import crops


@dataclass(frozen=True, slots=True)
class Span:
    """A word between two places along its line, 0 to 1; confidence is 0 to 1 too.

    weakest is the confidence of its least sure letter, where the reader says so, listed whether
    the reader found the word in a dictionary of its language.
    """

    text: str
    confidence: float
    weakest: float
    left: float
    right: float
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of one line, in the order in which they are read."""

    words: tuple[Span, ...]

    @property
    def text(self) -> str:
        """Put a space between words."""
        return " ".join(word.text for word in self.words)

    @property
    def confidence(self) -> float:
        """Weigh the words' confidences by their length."""
        letters = sum(len(word.text) for word in self.words)
        return sum(word.confidence * len(word.text) for word in self.words) / max(letters, 1)

    def line(self, crop: crops.Crop) -> pages.Line:
        """Put it where it stands on the page: from its first word to its last."""
        words = tuple(
            pages.Word(word.text, crop.part(word.left, word.right), word.confidence)
            for word in self.words
        )
        left = min((word.left for word in self.words), default=0.0)
        right = max((word.right for word in self.words), default=1.0)
        return pages.Line(self.text, crop.part(left, right), self.confidence, words)


def of_visual(words: Sequence[Span]) -> Reading:
    """Make a reading of words whose letters a network saw from left to right."""
    kinds = " ".join(map(_kind, words))
    order = [place // 2 for place in bidi.turned_places(kinds) if place % 2 == 0]
    if not any(map(bidi.is_leftward, kinds)):
        return Reading(tuple(words))
    return Reading(tuple(_turned(words[place]) for place in order))


def _kind(word: Span) -> str:
    """Choose a letter that tells which way a word runs."""
    letters = word.text
    return next(filter(bidi.is_leftward, letters), next(filter(bidi.is_latin, letters), letters[0]))


def _turned(word: Span) -> Span:
    leftward = any(map(bidi.is_leftward, word.text))
    return replace(word, text=bidi.turned(word.text)) if leftward else word
