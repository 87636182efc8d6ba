"""The extractor's side of the registry: enqueue documents, download files and attach them.

    registry = Registry(database, "extractor-1")
    entry = await registry.enqueue("acte", "acte 1874-23", priority=5)
    if await registry.begin(entry.id):
        with registry.folder() as folder:
            …                                        # download into the folder
            await registry.attach(entry.id, "registry/1874-23.pdf")

It uses the view extraction_queue, as clients in any language may. A change takes effect only if the
status of the document is the expected one; otherwise the method returns False. An extraction is a
lease of ten minutes: a download that takes longer calls `renew` now and then.
"""

from __future__ import annotations

import contextlib
import enum
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Self

from pagewarden import errors
from pagewarden.database import tables
from pagewarden.storage import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagewarden.database import Database, rows

VIEW = tables.extraction_queue


class RegistryStatus(enum.IntEnum):
    """Status of a document of the registry."""

    EN_ATTENTE = 1
    EN_TRAITEMENT = 2
    COMPLETE = 3
    OCR_PROCESSING = 4
    EXTRACTION_COMPLETE = 5
    ERREUR = 6


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A document of the registry.

    error_message is the error of the extractor, ocr_error that of OCR; they are independent.
    worker_id is the extractor while it extracts, extracted_by the one that delivered the file.
    """

    id: str
    source: str
    name: str
    status: RegistryStatus
    priority: int
    path: str | None
    worker_id: str | None
    extracted_by: str | None
    extraction_failures: int
    ocr_worker_id: str | None
    ocr_attempts: int
    ocr_max_attempts: int
    error_message: str | None
    ocr_error: str | None

    @classmethod
    def from_row(cls, row: rows.ExtractionQueue) -> Self:
        """Build an entry from a row of the view."""
        return cls(
            id=row["id"],
            source=row["document_source"],
            name=row["document_name"],
            status=RegistryStatus(row["status_id"]),
            priority=row["priority"],
            path=row["dropbox_path"],
            worker_id=row["worker_id"],
            extracted_by=row["extracted_by"],
            extraction_failures=row["extraction_failures"],
            ocr_worker_id=row["ocr_worker_id"],
            ocr_attempts=row["ocr_attempts"],
            ocr_max_attempts=row["ocr_max_attempts"],
            error_message=row["error_message"],
            ocr_error=row["ocr_error"],
        )


@dataclass(frozen=True, slots=True)
class Registry:
    """The registry as one extractor uses it; its worker_id must be unique."""

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
    ) -> RegistryEntry:
        """Add a document; higher priorities are extracted first."""
        columns = {
            "document_source": source,
            "document_name": name,
            "priority": priority,
            "engine": engine,
            "language": language,
            "ocr_max_attempts": max_attempts,
        }
        values = {key: value for key, value in columns.items() if value is not None}
        row = await self.database.insert(VIEW, values)
        if row is None:
            raise errors.DatabaseError(f"{name} was not added to the queue")
        return RegistryEntry.from_row(row)

    async def list_waiting(self, source: str, *, limit: int = 10) -> list[RegistryEntry]:
        """Return the documents to extract, highest priority first."""
        waiting = await self.database.select(
            VIEW,
            where={"document_source": source, "status_id": RegistryStatus.EN_ATTENTE.value},
            order="priority.desc,created_at",
            limit=limit,
        )
        return [RegistryEntry.from_row(row) for row in waiting]

    async def begin(self, document_id: str) -> bool:
        """Begin the extraction, for ten minutes; return False if another extractor has begun."""
        values = {"status_id": RegistryStatus.EN_TRAITEMENT.value, "worker_id": self.worker_id}
        return await self._update_if_status(document_id, RegistryStatus.EN_ATTENTE, values)

    async def renew(self, document_id: str) -> bool:
        """Hold the document for ten more minutes; return False if its lease was lost."""
        return await self._update_own_entry(document_id, {"worker_id": self.worker_id})

    async def attach(self, document_id: str, path: str, *, sha256: str | None = None) -> bool:
        """Attach the file at this path of the store; the document is then queued for OCR."""
        values: dict[str, object] = {
            "status_id": RegistryStatus.COMPLETE.value,
            "dropbox_path": path,
            "file_extension": PurePosixPath(path).suffix.lstrip(".").lower() or None,
        }
        if sha256 is not None:
            values["sha256"] = sha256
        return await self._update_own_entry(document_id, values)

    async def fail(self, document_id: str, message: str) -> bool:
        """Record why the extraction failed; it is tried again after a backoff, or given to HAC."""
        values: dict[str, object] = {
            "status_id": RegistryStatus.ERREUR.value,
            "error_message": message,
        }
        return await self._update_own_entry(document_id, values)

    async def release(self, document_id: str, *, worker_id: str | None = None) -> bool:
        """Return a document to the queue; `worker_id` names another extractor, which has died."""
        return await self._update_own_entry(
            document_id,
            {"status_id": RegistryStatus.EN_ATTENTE.value, "worker_id": None},
            owner=worker_id,
        )

    async def retry(self, document_id: str) -> bool:
        """Return a document to the queue after a failed extraction, before its backoff ends."""
        return await self._update_if_status(
            document_id,
            RegistryStatus.ERREUR,
            {"status_id": RegistryStatus.EN_ATTENTE.value, "worker_id": None},
        )

    async def get(self, document_id: str) -> RegistryEntry | None:
        """Return a document, or None if it does not exist."""
        entries = await self.database.select(VIEW, where={"id": document_id})
        return RegistryEntry.from_row(entries[0]) if entries else None

    async def get_pages(self, document_id: str) -> list[str]:
        """Return the text of the pages, with corrections."""
        pages = await self.database.select(
            tables.page_texts,
            columns="text",
            where={"document_id": document_id},
            order="page_number",
        )
        return [row["text"] for row in pages]

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Create a private folder for one document, removed at the end."""
        with (
            scratch.open_private_folder() as parent,
            tempfile.TemporaryDirectory(
                prefix=f"{_to_safe_name(self.worker_id)}-", dir=parent
            ) as folder,
        ):
            yield Path(folder)

    async def _update_own_entry(
        self, document_id: str, values: dict[str, object], *, owner: str | None = None
    ) -> bool:
        """Change a document of this extractor; return False if another one has taken over."""
        where = {"worker_id": owner or self.worker_id}
        return await self._update_if_status(
            document_id, RegistryStatus.EN_TRAITEMENT, values, **where
        )

    async def _update_if_status(
        self,
        document_id: str,
        expected: RegistryStatus,
        values: dict[str, object],
        **conditions: str,
    ) -> bool:
        where = {"id": document_id, "status_id": expected.value, **conditions}
        return bool(await self.database.update(VIEW, values, where=where))


def _to_safe_name(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name)
