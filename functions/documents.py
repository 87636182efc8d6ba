"""`documents`: search, get status and exports, cancel, read again, delete, restore."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse, RedirectResponse, Response
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema

from pagewarden import services
from pagewarden.documents.export import export_document
from pagewarden.exports import FORMATS
from pagewarden.functions.http import authentication, errors
from pagewarden.storage import scratch
from pagewarden.web import request_body

NAME = "documents"


def _require_format(name: str) -> str:
    if name not in FORMATS:
        raise ValueError(f"choose from {', '.join(FORMATS)}")
    return name


FormatName = Annotated[
    str,
    AfterValidator(_require_format),
    WithJsonSchema({"type": "string", "enum": list(FORMATS)}),
]

router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=authentication.require_access(NAME),
    responses=errors.error_responses(400, 401, 403, 429, 503),
    route_class=request_body.BodyLimitRoute,
)
_document_router = APIRouter(
    prefix="/{document_id}",
    responses=errors.error_responses(404),
    route_class=request_body.BodyLimitRoute,
)


class Progress(BaseModel):
    """Status and progress of a document."""

    document_id: uuid.UUID
    case_id: uuid.UUID
    name: str
    lane: str
    ocr_status: str
    document_version: int
    pages_done: int
    page_count: int | None
    attempts: int
    retry_at: datetime | None
    error: str | None
    ahead: int | None = Field(description="Number of documents ahead in the queue.")
    seconds_left: int | None = Field(
        description="Estimated seconds until completion; null if unknown."
    )
    created_at: datetime
    claimed_at: datetime | None = Field(description="Start of the latest attempt.")
    completed_at: datetime | None


class Hit(BaseModel):
    """A page that matches the query."""

    document_id: uuid.UUID
    case_id: uuid.UUID
    name: str
    page_number: int
    rank: float = Field(description="Relevance; higher is better.")
    headline: str = Field(description="Excerpt of the text, with matches marked «like this».")


class Search(BaseModel):
    """A search query and its filters."""

    query: str = Field(
        min_length=1,
        max_length=1000,
        description='Search terms; supports "quoted phrases", -excluded words, and OR.',
    )
    case_id: uuid.UUID | None = None
    language: str | None = Field(
        default=None, max_length=100, description="Also match inflected forms in this language."
    )
    limit: int = Field(default=20, ge=1, le=200)
    offset: int = Field(default=0, ge=0, le=10_000)


class DocumentStatus(BaseModel):
    """Status of a document after a change."""

    document_id: uuid.UUID
    ocr_status: str | None = None


class ReadOptions(BaseModel):
    """Engine, language and profile for reading again; omitted options keep their values."""

    engine: str | None = None
    language: str | None = None
    profile: str | None = None


@router.get("", name="search_documents")
async def search(
    query: Annotated[Search, Query()], caller: authentication.Caller, services: services.Current
) -> list[Hit]:
    """Search the pages of all documents that you can see, best match first."""
    database = authentication.database_for(caller, services)
    hits = await database.search_documents(**query.model_dump(mode="json"))
    return [Hit.model_validate(hit) for hit in hits]


@_document_router.get("", name="document_status")
async def status(
    document_id: uuid.UUID, caller: authentication.Caller, services: services.Current
) -> Progress:
    """Return the status and progress of a document."""
    database = authentication.database_for(caller, services)
    answer = await database.document_progress(document_id=str(document_id))
    return Progress.model_validate(errors.require_success(answer))


async def _export_file(
    document_id: uuid.UUID,
    caller: authentication.Caller,
    services: services.Current,
    format: Annotated[FormatName, Query()] = "txt",  # noqa: A002  # its name in the query
) -> AsyncIterator[scratch.LocalCopy]:
    """Export a document; the file exists until the response is sent."""
    database = authentication.database_for(caller, services)
    async with export_document(
        database, services.store, services.exporter, str(document_id), format
    ) as file:
        yield file


_FILE: dict[int | str, dict[str, Any]] = {
    303: {"description": "The export is too large for a response; Location is a link to it."},
    200: {
        "description": "The exported file.",
        "content": {form.media_type: {} for form in FORMATS.values()},
    },
}


@_document_router.get(
    "/export", response_class=FileResponse, responses=errors.error_responses(409, 422) | _FILE
)
async def export(
    file: Annotated[scratch.LocalCopy, Depends(_export_file)], services: services.Current
) -> Response:
    """Download the text of a document in an export format."""
    if link := await services.large_downloads.make_file_link(file.path, file.name):
        return RedirectResponse(link, 303)
    return FileResponse(file.path, media_type=file.media_type, filename=file.name)


@_document_router.post("/cancel", responses=errors.error_responses(409))
async def cancel(
    document_id: uuid.UUID, caller: authentication.Caller, services: services.Current
) -> DocumentStatus:
    """Cancel a document immediately; its file is kept."""
    database = authentication.database_for(caller, services)
    answer = await database.cancel_document(document_id=str(document_id))
    return DocumentStatus.model_validate(errors.require_success(answer))


@_document_router.post(
    "/read-again", responses=errors.error_responses(408, 409, 413), status_code=202
)
async def read_again(
    document_id: uuid.UUID,
    options: ReadOptions,
    caller: authentication.Caller,
    services: services.Current,
) -> DocumentStatus:
    """Queue a document again; its text is kept until the new text is complete."""
    database = authentication.database_for(caller, services)
    answer = await database.read_again(document_id=str(document_id), **options.model_dump())
    return DocumentStatus.model_validate(errors.require_success(answer))


@_document_router.delete("", responses=errors.error_responses(409))
async def delete(
    document_id: uuid.UUID, caller: authentication.Caller, services: services.Current
) -> DocumentStatus:
    """Move a document to the bin; `restore` undoes this."""
    database = authentication.database_for(caller, services)
    answer = await database.delete_document(document_id=str(document_id))
    return DocumentStatus.model_validate(errors.require_success(answer))


@_document_router.post("/restore", responses=errors.error_responses(409))
async def restore(
    document_id: uuid.UUID, caller: authentication.Caller, services: services.Current
) -> DocumentStatus:
    """Restore a document from the bin."""
    database = authentication.database_for(caller, services)
    answer = await database.restore_document(document_id=str(document_id))
    return DocumentStatus.model_validate(errors.require_success(answer))


router.include_router(_document_router)
