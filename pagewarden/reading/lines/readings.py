"""What a reader makes of a line: words, how sure it is of each, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.reading import pages

if TYPE_CHECKING:
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
    """The words of one line, from left to right."""

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
