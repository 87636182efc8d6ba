"""The extractor's side of the registry: what it asks for, downloads and hands over to be read.

    registry = Registry(database, "extractor-1")
    entry = await registry.enqueue("acte", "acte 1874-23", priority=5)
    if await registry.begin(entry.id):
        with registry.folder() as place:
            …                                        # download into place
            await registry.attach(entry.id, "registry/1874-23.pdf")

It works through the view extraction_queue, as clients in any language may. A change counts only
if the document still is where it was seen; otherwise the answer is no, and nothing has happened.
"""

from __future__ import annotations

import contextlib
import enum
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Self

from pagewarden import errors
from pagewarden.database import tables
from pagewarden.files import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pagewarden.database import Database

VIEW = tables.extraction_queue


class Status(enum.IntEnum):
    """Where a document of the registry stands."""

    EN_ATTENTE = 1
    EN_TRAITEMENT = 2
    COMPLETE = 3
    OCR_PROCESSING = 4
    EXTRACTION_COMPLETE = 5
    ERREUR = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A document of the registry.

    error_message is what the extractor met, ocr_error what reading met; neither touches the other.
    """

    id: str
    source: str
    name: str
    status: Status
    priority: int
    path: str | None
    worker_id: str | None
    ocr_worker_id: str | None
    ocr_attempts: int
    ocr_max_attempts: int
    error_message: str | None
    ocr_error: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Make it from a row of the view."""
        return cls(
            id=row["id"],
            source=row["document_source"],
            name=row["document_name"],
            status=Status(row["status_id"]),
            priority=row["priority"],
            path=row["dropbox_path"],
            worker_id=row["worker_id"],
            ocr_worker_id=row["ocr_worker_id"],
            ocr_attempts=row["ocr_attempts"],
            ocr_max_attempts=row["ocr_max_attempts"],
            error_message=row["error_message"],
            ocr_error=row["ocr_error"],
        )


@dataclass(frozen=True, slots=True)
class Registry:
    """What one extractor does; worker_id names it, and it alone."""

    database: Database
    worker_id: str

    async def enqueue(  # noqa: PLR0913  # each is a column
        self,
        source: str,
        name: str,
        *,
        priority: int = 0,
        engine: str | None = None,
        language: str | None = None,
        max_attempts: int | None = None,
    ) -> Entry:
        """Ask for a document; the more urgent, the higher its priority."""
        given = {
            "document_source": source,
            "document_name": name,
            "priority": priority,
            "engine": engine,
            "language": language,
            "ocr_max_attempts": max_attempts,
        }
        written = {key: value for key, value in given.items() if value is not None}
        row = await self.database.insert(VIEW, written)
        if row is None:
            raise errors.DatabaseError(f"{name} was not taken in")
        return Entry.from_row(row)

    async def waiting(self, source: str, *, limit: int = 10) -> list[Entry]:
        """List what is to be extracted, the most urgent first."""
        rows = await self.database.select(
            VIEW,
            where={"document_source": source, "status_id": Status.EN_ATTENTE.value},
            order="priority.desc,created_at",
            limit=limit,
        )
        return [Entry.from_row(row) for row in rows]

    async def begin(self, document_id: str) -> bool:
        """Say that we extract it; no when somebody else does already."""
        values = {"status_id": Status.EN_TRAITEMENT.value, "worker_id": self.worker_id}
        return await self._move(document_id, Status.EN_ATTENTE, values)

    async def attach(self, document_id: str, path: str, *, sha256: str | None = None) -> bool:
        """Hand over its file, which is in the file store at path: now it waits to be read."""
        values: dict[str, object] = {
            "status_id": Status.COMPLETE.value,
            "dropbox_path": path,
            "file_extension": PurePosixPath(path).suffix.lstrip(".").lower() or None,
        }
        if sha256 is not None:
            values["sha256"] = sha256
        return await self._move_own(document_id, values)

    async def fail(self, document_id: str, message: str) -> bool:
        """Say why it could not be extracted; what reading met stays as it is."""
        values: dict[str, object] = {"status_id": Status.ERREUR.value, "error_message": message}
        return await self._move_own(document_id, values)

    async def release(self, document_id: str, *, of: str | None = None) -> bool:
        """Let others extract it: we stop, or the extractor of that name has died."""
        return await self._move_own(
            document_id, {"status_id": Status.EN_ATTENTE.value, "worker_id": None}, of=of
        )

    async def retry(self, document_id: str) -> bool:
        """Have a failed extraction made again."""
        return await self._move(
            document_id, Status.ERREUR, {"status_id": Status.EN_ATTENTE.value, "worker_id": None}
        )

    async def read(self, document_id: str) -> Entry | None:
        """Look at a document."""
        rows = await self.database.select(VIEW, where={"id": document_id})
        return Entry.from_row(rows[0]) if rows else None

    async def text(self, document_id: str) -> list[str]:
        """Give the text of its pages, as people left it."""
        rows = await self.database.select(
            tables.page_texts,
            columns="text",
            where={"document_id": document_id},
            order="page_number",
        )
        return [row["text"] for row in rows]

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Have a folder of our own for one document, which is gone afterwards."""
        with (
            scratch.folder() as place,
            tempfile.TemporaryDirectory(prefix=f"{_safe(self.worker_id)}-", dir=place) as own,
        ):
            yield Path(own)

    async def _move_own(
        self, document_id: str, values: dict[str, object], *, of: str | None = None
    ) -> bool:
        """Change what we extract; no when somebody else does by now."""
        where = {"worker_id": of or self.worker_id}
        return await self._move(document_id, Status.EN_TRAITEMENT, values, **where)

    async def _move(
        self, document_id: str, seen: Status, values: dict[str, object], **more: str
    ) -> bool:
        where = {"id": document_id, "status_id": seen.value, **more}
        return bool(await self.database.update(VIEW, values, where=where))


def _safe(name: str) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in name)
