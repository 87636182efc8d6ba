"""What passes between the database, a worker and a reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from pagewarden.database import rows


@dataclass(frozen=True, slots=True)
class Claim:
    """A document in our hands, and the token that proves it."""

    id: str
    lock_token: str
    name: str
    lane: str
    path: str | None
    engine: str | None
    language: str | None
    profile: str | None
    attempts: int

    @classmethod
    def from_row(cls, row: rows.ClaimedDocument | rows.Documents) -> Claim:
        """Make it from what claim_documents returns, or from a row of documents that is locked."""
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
        )


@dataclass(frozen=True, slots=True)
class Run:
    """What reads: pages of one run never mix with those of another."""

    engine: str
    version: str
    profile: str = "balanced"


@dataclass(frozen=True, slots=True)
class Page:
    """What was read from a page. Numbers start at 1, confidence is 0 to 1, boxes are pixels.

    of is how many pages the document has, where that is known. language is the page's, where it is
    another than the document's. details are kept as they are.
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
        """Give it the form save_document_pages takes."""
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


class Reader(Protocol):
    """Whatever can read documents.

    Errors say what becomes of the document: an outage gives it back uncounted, everything else
    is a failed attempt of the error's category.
    """

    async def run_for(self, claim: Claim) -> Run:
        """Name the run this document is read in."""
        ...

    def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Read the pages one by one, without those that an earlier attempt has done."""
        ...
