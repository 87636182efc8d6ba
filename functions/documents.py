"""documents: search in them, ask how far one is, download its text, cancel, read again, delete."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from functions import answers, callers, exporting, services
from pagewarden import exports, small_bodies

NAME = "documents"


class Format(enum.StrEnum):
    """The formats of pagewarden.exports."""

    TXT = "txt"
    JSON = "json"
    PDF = "pdf"
    HOCR = "hocr"
    ALTO = "alto"
    PAGE = "page"


router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=callers.guards(NAME),
    responses=answers.documented(400, 401, 403, 429, 503),
    route_class=small_bodies.Route,
)
_one = APIRouter(
    prefix="/{document_id}",
    responses=answers.documented(404),
    route_class=small_bodies.Route,
)


class Progress(BaseModel):
    """How far a document is."""

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
    ahead: int | None = Field(description="How many documents are read before this one.")
    seconds_left: int | None = Field(description="An estimate; null when nobody knows.")
    created_at: datetime
    claimed_at: datetime | None = Field(description="When somebody last began to read it.")
    completed_at: datetime | None


class Hit(BaseModel):
    """A page whose text says what is searched for."""

    document_id: uuid.UUID
    case_id: uuid.UUID
    name: str
    page_number: int
    rank: float = Field(description="The better the hit, the higher.")
    headline: str = Field(description="A part of the text, with what was found marked «so».")


class Search(BaseModel):
    """What is searched for, and where."""

    query: str = Field(
        min_length=1, max_length=1000, description='Words; "a phrase", -not this, this or that.'
    )
    case_id: uuid.UUID | None = None
    language: str | None = Field(
        default=None, max_length=100, description="Words of it are found in all their forms."
    )
    limit: int = Field(default=20, ge=1, le=200)
    offset: int = Field(default=0, ge=0, le=10_000)


class Done(BaseModel):
    """What the engine answered."""

    document_id: uuid.UUID
    ocr_status: str | None = None


class Wishes(BaseModel):
    """How the document is to be read this time; what is left out stays as it was."""

    engine: str | None = None
    language: str | None = None
    profile: str | None = None


@router.get("", name="search_documents")
async def search(
    wanted: Annotated[Search, Query()], caller: callers.Caller, used: services.Used
) -> list[Hit]:
    """Find pages that say it, the best first, among what you may see."""
    database = callers.database_of(caller, used)
    found = await database.search_documents(**wanted.model_dump(mode="json"))
    return [Hit.model_validate(hit) for hit in found]


@_one.get("", name="document_status")
async def status(document_id: uuid.UUID, caller: callers.Caller, used: services.Used) -> Progress:
    """Say how far a document is; ask as often as you like."""
    database = callers.database_of(caller, used)
    answer = await database.document_progress(document_id=str(document_id))
    return Progress.model_validate(answers.require_success(answer))


async def _made(
    document_id: uuid.UUID,
    caller: callers.Caller,
    used: services.Used,
    format: Annotated[Format, Query()] = Format.TXT,  # noqa: A002  # its name in the query
) -> AsyncIterator[exporting.Made]:
    """Keep the export until it is sent."""
    database = callers.database_of(caller, used)
    async with exporting.made(used, database, str(document_id), format) as made:
        yield made


_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {form.media_type: {} for form in exports.FORMATS.values()},
    }
}


@_one.get("/export", response_class=FileResponse, responses=answers.documented(409, 422) | _FILE)
async def export(made: Annotated[exporting.Made, Depends(_made)]) -> FileResponse:
    """Download what was read: text, JSON, searchable PDF, hOCR, ALTO or PAGE."""
    return FileResponse(made.path, media_type=made.media_type, filename=made.name)


@_one.post("/cancel", responses=answers.documented(409))
async def cancel(document_id: uuid.UUID, caller: callers.Caller, used: services.Used) -> Done:
    """Stop reading a document, at once; its file stays."""
    database = callers.database_of(caller, used)
    answer = await database.cancel_document(document_id=str(document_id))
    return Done.model_validate(answers.require_success(answer))


@_one.post("/read-again", responses=answers.documented(408, 409, 413), status_code=202)
async def read_again(
    document_id: uuid.UUID, wishes: Wishes, caller: callers.Caller, used: services.Used
) -> Done:
    """Queue a document once more; its text stays until the new one is complete."""
    database = callers.database_of(caller, used)
    answer = await database.read_again(document_id=str(document_id), **wishes.model_dump())
    return Done.model_validate(answers.require_success(answer))


@_one.delete("", responses=answers.documented(409))
async def delete(document_id: uuid.UUID, caller: callers.Caller, used: services.Used) -> Done:
    """Put a document into the bin, from which restore takes it."""
    database = callers.database_of(caller, used)
    answer = await database.delete_document(document_id=str(document_id))
    return Done.model_validate(answers.require_success(answer))


@_one.post("/restore", responses=answers.documented(409))
async def restore(document_id: uuid.UUID, caller: callers.Caller, used: services.Used) -> Done:
    """Take a document out of the bin."""
    database = callers.database_of(caller, used)
    answer = await database.restore_document(document_id=str(document_id))
    return Done.model_validate(answers.require_success(answer))


router.include_router(_one)
