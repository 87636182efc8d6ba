"""upload-to-dropbox: a file comes in, is stored, and becomes a document."""

from __future__ import annotations

import contextlib
import functools
import uuid
from pathlib import PurePosixPath

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from functions import answers, callbacks, callers, incoming, services, storing
from pagewarden import database as databases
from pagewarden import errors
from pagewarden.database import rows, tables
from pagewarden.reading import formats
from pagewarden.telemetry import metrics, tracing

NAME = "upload-to-dropbox"

_FORBIDDEN = "a program"
_LONGEST_EXTENSION_BYTES = 200

router = APIRouter(prefix=f"/{NAME}", tags=[NAME], dependencies=callers.guards(NAME))

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "case_id": {"type": "string", "format": "uuid"},
                        "language": {"type": "string"},
                        "engine": {"type": "string"},
                        "profile": {"type": "string"},
                        "callback_url": {"type": "string", "format": "uri"},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class Accepted(BaseModel):
    """The document that the file has become."""

    document_id: uuid.UUID
    case_id: uuid.UUID
    name: str
    document_version: int = Field(description="Counts the uploads of this name in this case.")
    ocr_status: str
    existing: bool = Field(description="The case had these very bytes under this name already.")
    status_url: str = Field(description="Where to ask how far it is.")


@router.post(
    "",
    status_code=202,
    openapi_extra=_BODY,
    responses=answers.documented(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503, 507),
)
async def upload(
    request: Request, response: Response, caller: callers.Caller, used: services.Used
) -> Accepted:
    """Take in one file; fields come before it in the form, or in the query.

    Without case_id it goes to your inbox. What is of no type we read waits for a person.
    """
    accepted = await take_in(
        request, used, callers.database_of(caller, used), is_service=caller.is_service
    )
    response.headers["Location"] = accepted.status_url
    return accepted


async def take_in(
    request: Request, used: services.Services, database: databases.Database, *, is_service: bool
) -> Accepted:
    """Store the file of a request and make it a document, as whoever the database acts for."""
    began = tracing.now()
    arriving = await incoming.receive(request)
    callbacks.require(arriving.fields.get("callback_url"), used)
    case_id = await _case(arriving.fields, is_service, database)
    name = arriving.name
    path = f"{case_id}/{uuid.uuid4()}/{name}"
    stored = await used.store.write(
        path, arriving.kept_head(), limit=used.settings.upload_max_bytes
    )
    async with storing.no_orphans(used.store, [path]):
        kind = _require_allowed(arriving)
        lane = {None: None, "pdf": "pdf"}.get(kind, "image")
        call = functools.partial(
            database.safe_document_reupload_v2,
            case_id=case_id,
            document_name=name,
            new_dropbox_path=path,
            file_extension=_extension(name),
            ocr_status=None if kind else "pending",
            lane=lane,
            sha256=stored.sha256,
            size_bytes=stored.size,
            mime_type=_media_type(kind),
            engine=arriving.fields.get("engine"),
            language=arriving.fields.get("language"),
            profile=arriving.fields.get("profile"),
        )
        answer = await databases.with_retries(call, database=database, case_id=case_id)
    _note(answer, lane, stored.size, began)
    if answer["existing"]:
        await _keep_one(used, answer["document_id"], path)
    if callback := arriving.fields.get("callback_url"):
        await database.request_webhook(document_id=answer["document_id"], url=callback)
    status_url = services.address_of(
        request, used, "document_status", document_id=answer["document_id"]
    )
    return _accepted(answer, case_id, name, status_url)


def _note(
    answer: rows.SafeDocumentReuploadV2Answer, lane: str | None, size: int, began: int
) -> None:
    metrics.current().uploads.labels(lane or "none").inc()
    metrics.current().upload_bytes.inc(size)
    structlog.contextvars.bind_contextvars(document=answer["document_id"])
    tracing.record_span("upload", began, is_root=not answer["existing"], lane=lane, bytes=size)


async def _case(fields: dict[str, str], is_service: bool, database: databases.Database) -> str:  # noqa: FBT001
    """Find the case; whoever names none means the own inbox."""
    given = fields.get("case_id")
    if not given:
        owner = await _first_admin(database) if is_service else None
        return await database.create_case(name="Inbox", inbox=True, owner=owner)
    try:
        case_id = str(uuid.UUID(given))
    except ValueError as exc:
        raise answers.RefusedError(400, "INVALID_REQUEST", "case_id is no UUID") from exc
    # Asked before a byte is stored; whether the caller may write there, the upload itself asks.
    if not await database.select(
        tables.cases, columns="id", where={"id": case_id, "deleted_at": None}
    ):
        raise answers.RefusedError(404, "CASE_NOT_FOUND", "there is no such case, or not for you")
    return case_id


async def _keep_one(used: services.Services, document_id: str, path: str) -> None:
    """Let the document keep the file it has; where that was lost, these bytes take its place."""
    (row,) = await used.database.select(
        tables.documents, columns="dropbox_path", where={"id": document_id}
    )
    kept = (row["dropbox_path"] or path).removeprefix("/")
    if kept == path:
        return
    if await used.store.stat(kept) is None:
        with contextlib.suppress(errors.FileExists):
            await used.store.write(kept, used.store.read(path))
    await used.store.delete(path)


async def _first_admin(database: databases.Database) -> str:
    """Find out whose inbox takes what our own programs bring without naming a case."""
    found = await database.select(
        tables.user_roles,
        columns="user_id",
        where={"role": "admin"},
        order="created_at,user_id",
        limit=1,
    )
    if not found:
        raise answers.RefusedError(
            400, "NO_CASE", "name the case in case_id; there is no administrator with an inbox"
        )
    return found[0]["user_id"]


def _require_allowed(arriving: incoming.Incoming) -> str | None:
    """Tell the type by content: None is for a person to decide."""
    if not arriving.head:
        raise errors.EmptyFile(f"{arriving.name} is empty; there is nothing to read")
    if formats.describe(arriving.head) == _FORBIDDEN:
        raise answers.RefusedError(415, "FORBIDDEN_TYPE", f"{arriving.name} is a program")
    return formats.detect(arriving.head)


def _extension(name: str) -> str:
    """Tell the extension; what is too long for one is none."""
    found = PurePosixPath(name).suffix.lstrip(".").lower()
    return found if len(found.encode()) <= _LONGEST_EXTENSION_BYTES else ""


def _media_type(kind: str | None) -> str | None:
    if kind is None:
        return None
    return "application/pdf" if kind == "pdf" else f"image/{kind}"


def _accepted(
    answer: rows.SafeDocumentReuploadV2Answer, case_id: str, name: str, status_url: str
) -> Accepted:
    return Accepted(
        document_id=uuid.UUID(answer["document_id"]),
        case_id=uuid.UUID(case_id),
        name=name,
        document_version=answer["document_version"],
        ocr_status=answer["ocr_status"],
        existing=answer["existing"],
        status_url=status_url,
    )
