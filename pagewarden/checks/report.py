"""What a check found in a picture: issues, each with its place and a plain sentence."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagewarden.checks import comparing
    from pagewarden.reading import pages


class Kind(enum.StrEnum):
    """What may be wrong with the text of a picture; the first four are verdicts of comparing."""

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
    """How bad it is: a note does not need a person, anything else does."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Verdict(enum.StrEnum):
    """What becomes of a picture: nothing is to be done, or somebody has to look at it."""

    PASS = "PASS"  # noqa: S105  # no password
    MANUAL = "MANUAL"


SEVERITIES = dict.fromkeys(Kind, Severity.ERROR) | {
    Kind.EXTRA: Severity.WARNING,
    Kind.CUT_OFF: Severity.WARNING,
    Kind.NO_TEXT: Severity.WARNING,
    Kind.SOFT_MATCH: Severity.NOTE,
}


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong; the quad is where it is seen, None where nothing is to be seen."""

    kind: Kind
    message: str
    quad: pages.Quad | None = None
    expected: str | None = None
    found: str | None = None
    diff: tuple[comparing.Piece, ...] = ()

    @property
    def severity(self) -> Severity:
        """Say how bad it is."""
        return SEVERITIES[self.kind]


@dataclass(frozen=True, slots=True)
class Outcome:
    """An expected string, how it is there, and as what."""

    expected: str
    verdict: comparing.Verdict
    found: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found in one picture; strings is None where nothing was expected.

    Without a language, that of the text was not checked.
    """

    language: str | None
    text: str
    issues: tuple[Issue, ...]
    strings: tuple[Outcome, ...] | None = None

    @property
    def verdict(self) -> Verdict:
        """Say whether somebody has to look at it."""
        notes = all(issue.severity is Severity.NOTE for issue in self.issues)
        return Verdict.PASS if notes else Verdict.MANUAL

    @property
    def match(self) -> bool | None:
        """Tell whether all that was expected is there, at least softly, and nothing else is."""
        if self.strings is None:
            return None
        unequal = {Kind.MISSING, Kind.TRUNCATED, Kind.DIFFERENT, Kind.EXTRA}
        return not any(issue.kind in unequal for issue in self.issues)

    def as_json(self) -> dict[str, Any]:
        """Give it a form that JSON can carry."""
        return {
            "language": self.language,
            "languageChecked": self.language is not None,
            "verdict": self.verdict,
            "match": self.match,
            "extractedText": self.text,
            "strings": None if self.strings is None else [asdict(one) for one in self.strings],
            "issues": [asdict(issue) | {"severity": issue.severity} for issue in self.issues],
        }
