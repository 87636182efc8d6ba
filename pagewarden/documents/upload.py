"""Store an uploaded file and create its document."""

from __future__ import annotations

import contextlib
import functools
import uuid
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import structlog

from pagewarden import database as databases
from pagewarden.database import rows, tables
from pagewarden.errors import EmptyFile, FileExists, RequestRejected
from pagewarden.notifications import webhooks
from pagewarden.ocr import file_types
from pagewarden.storage import base
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from pagewarden.storage.base import FileStore
    from pagewarden.web.request_body import IncomingFile

_FORBIDDEN = "a program"
_MAX_EXTENSION_BYTES = 200


@dataclass(frozen=True, slots=True)
class UploadedDocument:
    """The document of an uploaded file; `existing` if the case had the same file already."""

    document_id: str
    case_id: str
    name: str
    document_version: int
    ocr_status: str
    existing: bool


@dataclass(frozen=True, slots=True)
class Uploader:
    """Stores uploaded files and creates their documents."""

    service_database: Database
    store: FileStore
    settings: Settings
    has_webhooks: bool

    async def upload_document(
        self, file: IncomingFile, database: Database, *, is_service: bool
    ) -> UploadedDocument:
        """Store a file and create its document as the user of `database`, or as a service."""
        began = tracing.now()
        callback_url = file.fields.get("callback_url")
        if callback_url is not None:
            webhooks.check_callback_url(
                callback_url,
                webhooks_enabled=self.has_webhooks,
                allow_any_address=self.settings.webhooks_anywhere,
            )
        case_id = await _resolve_case(file.fields, database, is_service=is_service)
        path = f"{case_id}/{uuid.uuid4()}/{file.name}"
        stored = await self.store.write(path, file.read(), limit=self.settings.upload_max_bytes)
        async with base.delete_on_failure(self.store, [path]):
            file_type = _detect_type(file)
            lane = {None: None, "pdf": "pdf"}.get(file_type, "image")
            create_version = functools.partial(
                database.safe_document_reupload_v2,
                case_id=case_id,
                document_name=file.name,
                new_dropbox_path=path,
                file_extension=_get_extension(file.name),
                ocr_status=None if file_type else "pending",
                lane=lane,
                sha256=stored.sha256,
                size_bytes=stored.size,
                mime_type=_get_media_type(file_type),
                engine=file.fields.get("engine"),
                language=file.fields.get("language"),
                profile=file.fields.get("profile"),
            )
            answer = await databases.retry_on_conflict(
                create_version, database=self.service_database, case_id=case_id
            )
        _record_upload(answer, lane, stored.size, began)
        if answer["existing"]:
            await self._discard_duplicate(answer["document_id"], path)
        if callback_url:
            await database.request_webhook(document_id=answer["document_id"], url=callback_url)
        return UploadedDocument(
            document_id=answer["document_id"],
            case_id=case_id,
            name=file.name,
            document_version=answer["document_version"],
            ocr_status=answer["ocr_status"],
            existing=answer["existing"],
        )

    async def _discard_duplicate(self, document_id: str, path: str) -> None:
        """Delete the second copy of a file, or replace the first one if that was lost."""
        (row,) = await self.service_database.select(
            tables.documents, columns="dropbox_path", where={"id": document_id}
        )
        document_path = (row["dropbox_path"] or path).removeprefix("/")
        if document_path == path:
            return
        if await self.store.stat(document_path) is None:
            with contextlib.suppress(FileExists):
                await self.store.write(document_path, self.store.read(path))
        await self.store.delete(path)


def _record_upload(
    answer: rows.SafeDocumentReuploadV2Answer, lane: str | None, size: int, started_ns: int
) -> None:
    metrics.current().uploads.labels(lane or "none").inc()
    metrics.current().upload_bytes.inc(size)
    structlog.contextvars.bind_contextvars(document=answer["document_id"])
    tracing.record_span("upload", started_ns, is_root=not answer["existing"], lane=lane, bytes=size)


async def _resolve_case(fields: dict[str, str], database: Database, *, is_service: bool) -> str:
    """Return the case that the fields name, or else the inbox of the user."""
    named = fields.get("case_id")
    if not named:
        owner = await _find_first_admin(database) if is_service else None
        return await database.create_case(name="Inbox", inbox=True, owner=owner)
    try:
        case_id = str(uuid.UUID(named))
    except ValueError as exc:
        raise RequestRejected("INVALID_REQUEST", "case_id is not a UUID") from exc
    # Checked before anything is stored; the upload itself checks the permission to write.
    if not await database.select(
        tables.cases, columns="id", where={"id": case_id, "deleted_at": None}
    ):
        raise RequestRejected("CASE_NOT_FOUND", "no such case, or you have no access to it")
    return case_id


async def _find_first_admin(database: Database) -> str:
    """Return the administrator whose inbox receives uploads of services without a case."""
    found = await database.select(
        tables.user_roles,
        columns="user_id",
        where={"role": "admin"},
        order="created_at,user_id",
        limit=1,
    )
    if not found:
        raise RequestRejected("NO_CASE", "no administrator has an inbox; send case_id")
    return found[0]["user_id"]


def _detect_type(file: IncomingFile) -> str | None:
    """Return the file type by content; None if a person has to decide."""
    if not file.head:
        raise EmptyFile(f"{file.name} is empty")
    if file_types.describe(file.head) == _FORBIDDEN:
        raise RequestRejected("FORBIDDEN_TYPE", f"{file.name} is an executable file")
    return file_types.detect(file.head)


def _get_extension(name: str) -> str:
    extension = PurePosixPath(name).suffix.lstrip(".").lower()
    return extension if len(extension.encode()) <= _MAX_EXTENSION_BYTES else ""


def _get_media_type(file_type: str | None) -> str | None:
    if file_type is None:
        return None
    return "application/pdf" if file_type == "pdf" else f"image/{file_type}"
