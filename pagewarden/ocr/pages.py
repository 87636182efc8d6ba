"""Result model: a page with its lines and words, their positions and confidences.

Coordinates are pixels of the page image as a person sees it (after EXIF orientation and a PDF's
own /Rotate), origin top left. A quad is four corners, clockwise, beginning at the top left corner
of the text itself: on a page that lies on its side the first corner is not the leftmost one.
Confidence is 0 to 1.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Stands for a character that could not be read; never occurs in printed text."""

UNREADABLE_CONFIDENCE = 0.5
"""Confidence of text that contains UNREADABLE; below the review threshold of 0.8."""


class Point(NamedTuple):
    """A position on the page image."""

    x: float
    y: float


Quad = tuple[Point, Point, Point, Point]


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def quad(self) -> Quad:
        """Return the corners, for text that runs from left to right."""
        return (
            Point(self.left, self.top),
            Point(self.right, self.top),
            Point(self.right, self.bottom),
            Point(self.left, self.bottom),
        )


def bounding_box(quad: Quad) -> Box:
    """Return the upright rectangle around a quad."""
    xs = [point.x for point in quad]
    ys = [point.y for point in quad]
    return Box(min(xs), min(ys), max(xs), max(ys))


@dataclass(frozen=True, slots=True)
class Word:
    """A word; in a script without spaces, as the engine splits the text."""

    text: str
    quad: Quad
    confidence: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text; block numbers the paragraphs or columns of the page, in reading order."""

    text: str
    quad: Quad
    confidence: float
    words: tuple[Word, ...] = ()
    block: int = 0


Edge = tuple[Point, Point]
"""The points on the upper and lower outline of a line at one position along it."""


@dataclass(frozen=True, slots=True)
class CurvedLine(Line):
    """A line that is not straight; edges go from its start to its end, quad spans the two ends."""

    edges: tuple[Edge, ...] = ()


class TextSource(enum.StrEnum):
    """The origin of the text of a page."""

    OCR = "ocr"
    LAYER = "layer"
    FAILED = "failed"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of a page at a service that counts tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page and its lines in reading order; number starts at 1.

    rotation is the clockwise turn in degrees (0, 90, 180, 270) that makes the image upright, skew
    the remaining angle in degrees. error says why a page could not be read.
    """

    number: int
    width: int
    height: int
    dpi: float
    source: TextSource
    lines: tuple[Line, ...] = ()
    rotation: int = 0
    skew: float = 0.0
    engine: str = ""
    usage: Usage = field(default_factory=Usage)
    error: str | None = None

    @property
    def text(self) -> str:
        """The lines, with an empty line between blocks."""
        parts: list[str] = []
        for before, line in zip((None, *self.lines), self.lines, strict=False):
            if before is not None:
                parts.append("\n" if before.block == line.block else "\n\n")
            parts.append(line.text)
        return "".join(parts)

    @property
    def confidence(self) -> float | None:
        """The confidence of the lines, weighted by length; None for a page without text.

        One unreadable character sends the whole page to review.
        """
        letters = sum(len(line.text) for line in self.lines)
        if not letters:
            return None
        mean = sum(line.confidence * len(line.text) for line in self.lines) / letters
        marked = any(UNREADABLE in line.text for line in self.lines)
        return (
            min(mean, UNREADABLE_CONFIDENCE) if marked and self.source is TextSource.OCR else mean
        )

    def as_json(self) -> dict[str, Any]:
        """Return a form that JSON can represent; `from_json` reverses it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadPage:
        """Make a page from the result of `as_json`, before or after serialisation."""
        return cls(
            **{
                **data,
                "source": TextSource(data["source"]),
                "lines": tuple(line_from_json(line) for line in data["lines"]),
                "usage": Usage(**data["usage"]),
            }
        )


def line_from_json(data: Mapping[str, Any]) -> Line:
    """Make a line from its form in JSON."""
    words = tuple(
        Word(word["text"], _quad_from_json(word["quad"]), word["confidence"])
        for word in data["words"]
    )
    return Line(
        data["text"], _quad_from_json(data["quad"]), data["confidence"], words, data["block"]
    )


def _quad_from_json(corners: Sequence[Sequence[float]]) -> Quad:
    first, second, third, fourth = (Point(*corner) for corner in corners)
    return first, second, third, fourth
