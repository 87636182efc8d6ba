"""Claim, Outcome, ReadingRun, Page and ReadOptions; the protocols that readers implement."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pagewarden import errors
from pagewarden.ocr import engines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from pagewarden.database import rows
    from pagewarden.settings import Settings

# Rejected completions that the database has already counted as a failed attempt.
_COUNTED_FAILURES = frozenset({"TOO_MANY_FAILED_PAGES", "PAGES_MISSING"})


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a document; every later call carries its lock token."""

    id: str
    lock_token: str
    name: str
    lane: str
    path: str | None
    engine: str | None
    language: str | None
    profile: str | None
    attempts: int
    case_id: str | None = None
    mime_type: str | None = None

    @classmethod
    def from_row(cls, row: rows.ClaimedDocument | rows.Documents) -> Claim:
        """Return the claim of a row of claim_documents, or of a locked document."""
        return cls(
            id=row["id"],
            lock_token=str(row["lock_token"]),
            name=row["name"],
            lane=row["lane"],
            path=row["dropbox_path"],
            engine=row["engine"],
            language=row["language"],
            profile=row["profile"],
            attempts=row["attempts"],
            case_id=row["case_id"],
            mime_type=row["mime_type"],
        )

    @property
    def job_id(self) -> str | None:
        """Id of the check job, which is its case; None for other documents."""
        return self.case_id if self.lane == "check" else None

    @property
    def store_path(self) -> str:
        """Path of the file in the file store; raises FileNotFound for a document without one."""
        if self.path is None:
            raise errors.FileNotFound(f"{self.name!r} has no file; upload it again")
        return self.path.removeprefix("/")


class Outcome(enum.StrEnum):
    """Outcome of an attempt; the values are metric labels."""

    COMPLETED = "completed"
    FAILED = "failed"
    GIVEN_BACK = "given_back"
    LOST = "lost"
    HANDED_OVER = "handed_over"  # an invocation reads it, and its answer was lost


def require_lock(answer: Mapping[str, object]) -> None:
    """Raise LockLost if a call was refused, except where it was counted as a failed attempt."""
    if not answer["success"] and answer["error"] not in _COUNTED_FAILURES:
        raise errors.LockLost(f"{answer['error']}: {answer['message']}")


@dataclass(frozen=True, slots=True)
class ReadingRun:
    """Engine, version and profile of a reading; pages of different runs are never mixed."""

    engine: str
    version: str
    profile: str = "balanced"


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it is saved. Numbers start at 1, confidence is 0 to 1, boxes are in pixels.

    of: number of pages of the document, if known. language: that of the page, if it differs from
    that of the document. details: stored as they are.
    """

    number: int
    text: str = ""
    status: str = "read"
    confidence: float | None = None
    lines: Sequence[Mapping[str, Any]] = ()
    width: int | None = None
    height: int | None = None
    error: str | None = None
    of: int | None = None
    language: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the page as save_document_pages expects it."""
        return {
            "page_number": self.number,
            "text": self.text,
            "status": self.status,
            "confidence": self.confidence,
            "lines": list(self.lines),
            "width": self.width,
            "height": self.height,
            "error": self.error,
            "language": self.language,
            "details": dict(self.details),
        }


class DocumentReader(Protocol):
    """Reads documents.

    Its errors decide what happens to the document: an outage releases it without counting the
    attempt, any other error is a failed attempt of the error's category.
    """

    async def get_run(self, claim: Claim) -> ReadingRun:
        """Return the run that this document is read in."""
        ...

    def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Read the pages one by one, except those that an earlier attempt has saved."""
        ...


class ReaderSelector(Protocol):
    """Selects the reader of each document."""

    async def select_reader(self, claim: Claim) -> DocumentReader:
        """Return the reader for this document, and start it first if needed."""
        ...


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Engine, profile and language for documents that do not name their own."""

    engine: str = engines.DEFAULT
    profile: str = engines.BALANCED
    language: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> ReadOptions:
        """Return the defaults of an installation."""
        return cls(settings.engine, settings.profile)

    def resolve(self, claim: Claim) -> ReadOptions:
        """Return the options of a claim, completed by these; EngineNotInstalled if unknown."""
        if claim.engine is not None and claim.engine not in engines.ENGINES:
            raise errors.EngineNotInstalled(
                f"unknown engine {claim.engine!r}; read the document again with one of "
                f"{', '.join(engines.ENGINES)}"
            )
        if claim.profile is not None and claim.profile not in engines.PROFILES:
            raise errors.EngineNotInstalled(
                f"unknown profile {claim.profile!r}; read the document again with one of "
                f"{', '.join(engines.PROFILES)}"
            )
        return ReadOptions(
            claim.engine or self.engine,
            claim.profile or self.profile,
            claim.language or self.language,
        )


DEFAULT_OPTIONS = ReadOptions()
