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
from pagewarden.database import tables
from pagewarden.errors import EmptyFile, FileExists, FileTooLarge, RequestRejected
from pagewarden.notifications import webhooks
from pagewarden.ocr import file_types
from pagewarden.storage import base
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        self.check_callback_url(file.fields)
        case_id = await resolve_case(file.fields, database, is_service=is_service)
        path = make_path(case_id, file.name)
        stored = await self._write(path, file)
        async with base.delete_on_failure(self.store, [path]):
            file_type = FileType.detect(file.name, file.head)
            create_version = functools.partial(
                database.safe_document_reupload_v2,
                case_id=case_id,
                document_name=file.name,
                new_dropbox_path=path,
                file_extension=file_type.extension,
                ocr_status=file_type.ocr_status,
                lane=file_type.lane,
                sha256=stored.sha256,
                size_bytes=stored.size,
                mime_type=file_type.media_type,
                engine=file.fields.get("engine"),
                language=file.fields.get("language"),
                profile=file.fields.get("profile"),
            )
            answer = await databases.retry_on_conflict(
                create_version, database=self.service_database, case_id=case_id
            )
        document = UploadedDocument(
            document_id=answer["document_id"],
            case_id=case_id,
            name=file.name,
            document_version=answer["document_version"],
            ocr_status=answer["ocr_status"],
            existing=answer["existing"],
        )
        record_upload(document, file_type.lane, stored.size, began)
        if document.existing:
            await self.discard_duplicate(document.document_id, path)
        await request_webhook(file.fields.get("callback_url"), document.document_id, database)
        return document

    async def _write(self, path: str, file: IncomingFile) -> base.WrittenFile:
        limit = self.max_direct_bytes
        try:
            return await self.store.write(path, file.read(), limit=limit)
        except FileTooLarge as exc:
            if limit == self.settings.upload_max_bytes:
                raise
            raise RequestRejected(
                "DIRECT_UPLOAD_TOO_LARGE",
                f"a request may upload at most {limit} bytes; request an upload address with "
                "POST upload-to-dropbox/sign",
            ) from exc

    @property
    def max_direct_bytes(self) -> int:
        """The size of the largest file that may be uploaded in one request."""
        largest = self.settings.upload_max_bytes
        return min(largest, self.settings.max_direct_upload or largest)

    def check_callback_url(self, fields: Mapping[str, str]) -> None:
        """Reject a callback URL that could not be called."""
        callback_url = fields.get("callback_url")
        if callback_url is not None:
            webhooks.check_callback_url(
                callback_url,
                webhooks_enabled=self.has_webhooks,
                allow_any_address=self.settings.webhooks_anywhere,
            )

    async def discard_duplicate(self, document_id: str, path: str) -> None:
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


def make_path(case_id: str, name: str) -> str:
    """Return a new path for a file in the folder of its case."""
    return f"{case_id}/{uuid.uuid4()}/{name}"


def record_upload(document: UploadedDocument, lane: str | None, size: int, started_ns: int) -> None:
    """Count an upload, and begin the trace of its document."""
    metrics.current().uploads.labels(lane or "none").inc()
    metrics.current().upload_bytes.inc(size)
    structlog.contextvars.bind_contextvars(document=document.document_id)
    is_root = not document.existing
    tracing.record_span("upload", started_ns, is_root=is_root, lane=lane, bytes=size)


async def request_webhook(url: str | None, document_id: str, database: Database) -> None:
    """Register the callback URL of an upload, if it has one."""
    if url:
        await database.request_webhook(document_id=document_id, url=url)


async def resolve_case(fields: Mapping[str, str], database: Database, *, is_service: bool) -> str:
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


@dataclass(frozen=True, slots=True)
class FileType:
    """The type of a file by its content; all but the extension are None if HAC must route it."""

    extension: str
    lane: str | None
    media_type: str | None

    @classmethod
    def detect(cls, name: str, head: bytes) -> FileType:
        """Detect the type by the first bytes; reject empty files and programs."""
        if not head:
            raise EmptyFile(f"{name} is empty")
        if file_types.describe(head) == _FORBIDDEN:
            raise RequestRejected("FORBIDDEN_TYPE", f"{name} is an executable file")
        detected = file_types.detect(head)
        lane = {None: None, "pdf": "pdf"}.get(detected, "image")
        return cls(_get_extension(name), lane, _get_media_type(detected))

    @property
    def ocr_status(self) -> str | None:
        """The status of a new document; None lets the lane decide."""
        return None if self.lane else "pending"


def _get_extension(name: str) -> str:
    extension = PurePosixPath(name).suffix.lstrip(".").lower()
    return extension if len(extension.encode()) <= _MAX_EXTENSION_BYTES else ""


def _get_media_type(file_type: str | None) -> str | None:
    if file_type is None:
        return None
    return "application/pdf" if file_type == "pdf" else f"image/{file_type}"
