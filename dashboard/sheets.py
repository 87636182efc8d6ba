"""A page under review: its text line by line, each with its place on the picture."""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.documents import corrections
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import rows

# More of either would make a browser slow; such a page is edited as one text.
MOST_LINES = 600
MOST_LETTERS = 100_000
MOST_COMPARED = 300

_UNSURE = 0.85
_DOUBTFUL = 0.6


@dataclass(frozen=True, slots=True)
class Shown:
    """A line as it is shown; level is sure, unsure or doubtful."""

    number: int
    text: str
    block: int
    percent: int
    level: str
    points: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page with this text. lines are empty where it has none, or more than can be shown."""

    text: str
    lines: tuple[pages.Line, ...]
    width: int
    height: int
    turn: int

    @property
    def shown(self) -> list[Shown]:
        """Give the lines as they are shown."""
        return [_shown(number, line) for number, line in enumerate(self.lines, 1)]

    def retyped(self, texts: Sequence[str]) -> tuple[pages.Line, ...]:
        """Give the lines with other texts, one for each; lines without text go."""
        return tuple(
            corrections.retyped(line, text)
            for line, text in zip(self.lines, texts, strict=True)
            if text.strip()
        )


def of_row(row: rows.PageTexts, text: str | None = None) -> Sheet:
    """Make the sheet of a row of page_texts, or of its lines with another text."""
    text = row["text"] if text is None else text
    lines = lines_of(row, text) if len(text) <= MOST_LETTERS else ()
    return Sheet(
        text,
        lines if len(lines) <= MOST_LINES else (),
        row["width"] or 0,
        row["height"] or 0,
        int(row["details"].get("rotation") or 0) % 360,
    )


def lines_of(row: rows.PageTexts, text: str) -> tuple[pages.Line, ...]:
    """Give the lines of a page that spell this text; none, where nobody knows their places."""
    found: tuple[pages.Line, ...] = ()
    with contextlib.suppress(KeyError, TypeError, ValueError):  # whoever saved them saw to nothing
        found = tuple(pages.line_from_json(line) for line in row["lines"])
    if found and corrections.text_of(found) != text:
        found = corrections.fitted(text, found)
    return found


def differences(mine: str, theirs: str) -> list[tuple[str, str]]:
    """Set lines side by side that differ; none, where there are too many to compare."""
    one, other = mine.splitlines(), theirs.splitlines()
    if max(len(one), len(other)) > MOST_LINES or len(mine) + len(theirs) > 2 * MOST_LETTERS:
        return []
    if not corrections.is_comparable(one, other):
        return []
    compared = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return [
        ("\n".join(one[a:b]), "\n".join(other[c:d]))
        for kind, a, b, c, d in compared.get_opcodes()
        if kind != "equal"
    ][:MOST_COMPARED]


def level_of(confidence: float) -> str:
    """Say how sure a reader is: sure, unsure or doubtful."""
    if confidence >= _UNSURE:
        return "sure"
    return "doubtful" if confidence < _DOUBTFUL else "unsure"


def _shown(number: int, line: pages.Line) -> Shown:
    return Shown(
        number,
        line.text,
        line.block,
        # Never rounded up to what it is not.
        int(100 * line.confidence),
        level_of(line.confidence),
        " ".join(f"{point.x:.1f},{point.y:.1f}" for point in line.quad),
    )
