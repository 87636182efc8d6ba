"""What is read from a page: lines and words, where they stand, and how sure the reader is.

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
"""Stands for one character that could not be read; no text on paper has it."""

UNREADABLE_CONFIDENCE = 0.5
"""Of what contains such a character; below the threshold of review, 0.8."""


class Point(NamedTuple):
    """A place on the page image."""

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
        """Give its corners, for text that runs from left to right."""
        return (
            Point(self.left, self.top),
            Point(self.right, self.top),
            Point(self.right, self.bottom),
            Point(self.left, self.bottom),
        )


def bounds(quad: Quad) -> Box:
    """Find the upright rectangle around a quad."""
    xs = [point.x for point in quad]
    ys = [point.y for point in quad]
    return Box(min(xs), min(ys), max(xs), max(ys))


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or in a script without spaces what its reader takes for one."""

    text: str
    quad: Quad
    confidence: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text; block counts the paragraphs or columns of its page, in reading order."""

    text: str
    quad: Quad
    confidence: float
    words: tuple[Word, ...] = ()
    block: int = 0


Edge = tuple[Point, Point]
"""What is above and what is below a place along a line."""


@dataclass(frozen=True, slots=True)
class CurvedLine(Line):
    """A line that is not straight; edges go from its beginning to its end, quad is its ends'."""

    edges: tuple[Edge, ...] = ()


class Source(enum.StrEnum):
    """Where the text of a page comes from."""

    OCR = "ocr"
    LAYER = "layer"
    FAILED = "failed"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a page cost at a service that counts tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page and its lines in reading order; number starts at 1.

    rotation is by how many degrees clockwise (0, 90, 180, 270) the image had to be turned to
    stand upright, skew what was left after that, in degrees. error says why a page could not
    be read.
    """

    number: int
    width: int
    height: int
    dpi: float
    source: Source
    lines: tuple[Line, ...] = ()
    rotation: int = 0
    skew: float = 0.0
    engine: str = ""
    usage: Usage = field(default_factory=Usage)
    error: str | None = None

    @property
    def text(self) -> str:
        """Join the lines; an empty line stands between blocks."""
        parts: list[str] = []
        for before, line in zip((None, *self.lines), self.lines, strict=False):
            if before is not None:
                parts.append("\n" if before.block == line.block else "\n\n")
            parts.append(line.text)
        return "".join(parts)

    @property
    def confidence(self) -> float | None:
        """Weigh the lines' confidences by their length; None where there is no text.

        One unreadable character makes the whole page wait for a person.
        """
        letters = sum(len(line.text) for line in self.lines)
        if not letters:
            return None
        mean = sum(line.confidence * len(line.text) for line in self.lines) / letters
        marked = any(UNREADABLE in line.text for line in self.lines)
        return min(mean, UNREADABLE_CONFIDENCE) if marked and self.source is Source.OCR else mean

    def as_json(self) -> dict[str, Any]:
        """Give it a form that JSON can carry and from_json understands."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadPage:
        """Make it from what as_json gave, also after a journey through JSON."""
        return cls(
            **{
                **data,
                "source": Source(data["source"]),
                "lines": tuple(line_from_json(line) for line in data["lines"]),
                "usage": Usage(**data["usage"]),
            }
        )


def line_from_json(data: Mapping[str, Any]) -> Line:
    """Make a line from its JSON form."""
    words = tuple(
        Word(word["text"], _quad(word["quad"]), word["confidence"]) for word in data["words"]
    )
    return Line(data["text"], _quad(data["quad"]), data["confidence"], words, data["block"])


def _quad(corners: Sequence[Sequence[float]]) -> Quad:
    first, second, third, fourth = (Point(*corner) for corner in corners)
    return first, second, third, fourth
