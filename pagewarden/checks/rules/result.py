"""Result of a check: verdict, strings, and issues with their location in the picture."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagewarden.checks.rules import comparison


def locate_part(line: pages.Line, start: int, end: int) -> pages.Quad:
    """Return the quad of the words in text[start:end] of a line; of the line if it has no words."""
    if start <= 0 and end >= len(line.text):
        return line.quad
    quads = [quad for first, last, quad in _locate_words(line) if first < end and last > start]
    return bounding_quad(quads) if quads else line.quad


def bounding_quad(quads: Sequence[pages.Quad]) -> pages.Quad:
    """Return the bounding box of several quads; a single one is returned unchanged."""
    if len(quads) == 1:
        return quads[0]
    boxes = [pages.bounding_box(quad) for quad in quads]
    return pages.Box(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    ).quad()


def _locate_words(line: pages.Line) -> Iterator[tuple[int, int, pages.Quad]]:
    end = 0
    for word in line.words:
        start = line.text.find(word.text, end)
        if start >= 0:
            end = start + len(word.text)
            yield start, end, word.quad


class IssueKind(enum.StrEnum):
    """Kind of an issue; the first four are verdicts of the comparison."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    DIFFERENT = "different"
    EXTRA = "extra"
    SOFT_MATCH = "soft match"
    UNTRANSLATED = "untranslated"
    WRONG_LANGUAGE = "wrong language"
    PLACEHOLDER = "placeholder"
    MOJIBAKE = "mojibake"
    MISSING_GLYPH = "missing glyph"
    CUT_OFF = "cut off"
    NO_TEXT = "no text"


class Severity(enum.StrEnum):
    """Severity of an issue; all but notes require a person's decision."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Verdict(enum.StrEnum):
    """Verdict on a picture: passed, or a person has to review it."""

    PASS = "PASS"  # noqa: S105  # not a password
    MANUAL = "MANUAL"


SEVERITIES = dict.fromkeys(IssueKind, Severity.ERROR) | {
    IssueKind.EXTRA: Severity.WARNING,
    IssueKind.CUT_OFF: Severity.WARNING,
    IssueKind.NO_TEXT: Severity.WARNING,
    IssueKind.SOFT_MATCH: Severity.NOTE,
}


@dataclass(frozen=True, slots=True)
class Issue:
    """A problem of a picture; quad is its location, or None if it has none."""

    kind: IssueKind
    message: str
    quad: pages.Quad | None = None
    expected: str | None = None
    found: str | None = None
    diff: tuple[comparison.DiffSegment, ...] = ()

    @property
    def severity(self) -> Severity:
        """Severity of this kind of issue."""
        return SEVERITIES[self.kind]


@dataclass(frozen=True, slots=True)
class StringResult:
    """An expected string, its verdict, and the text found."""

    expected: str
    verdict: comparison.Verdict
    found: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one picture; strings is None without references.

    Without `language`, the language of the text was not checked.
    """

    language: str | None
    text: str
    issues: tuple[Issue, ...]
    strings: tuple[StringResult, ...] | None = None

    @property
    def verdict(self) -> Verdict:
        """PASS if all issues are notes."""
        only_notes = all(issue.severity is Severity.NOTE for issue in self.issues)
        return Verdict.PASS if only_notes else Verdict.MANUAL

    @property
    def match(self) -> bool | None:
        """Whether all expected strings match, at least softly, and there is no other text."""
        if self.strings is None:
            return None
        unequal = {IssueKind.MISSING, IssueKind.TRUNCATED, IssueKind.DIFFERENT, IssueKind.EXTRA}
        return not any(issue.kind in unequal for issue in self.issues)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the API."""
        return {
            "language": self.language,
            "languageChecked": self.language is not None,
            "verdict": self.verdict,
            "match": self.match,
            "extractedText": self.text,
            "strings": None
            if self.strings is None
            else [asdict(string) for string in self.strings],
            "issues": [asdict(issue) | {"severity": issue.severity} for issue in self.issues],
        }
