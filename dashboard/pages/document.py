"""One document: how far it is, what was read, what can be done with it."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, parts, rendering, route, visitors
from dashboard.pages import documents
from pagewarden import exports
from pagewarden.database import rows, tables
from pagewarden.database.table import Table

router = APIRouter(prefix=documents.PAGE.path, route_class=route.Route, include_in_schema=False)

_PAGES_SHOWN = 20
_OPEN = {"awaiting_file", "extracting", "queued", "queued_for_pdf", "processing"}
_ENDED = {"completed", "cancelled", "failed"}
_READABLE_AGAIN = _ENDED | {"pending_review", "dead_letter"}


class Act(enum.StrEnum):
    """What can be done with a document; the values are parts of paths."""

    READ_AGAIN = "read-again"
    CANCEL = "cancel"
    DELETE = "delete"
    RESTORE = "restore"
    ERASE = "erase"


_ACTS = {
    Act.CANCEL: ("cancel_document", "It is cancelled; read it again to undo that."),
    Act.DELETE: ("delete_document", "It is in the bin; restore it to undo that."),
    Act.RESTORE: ("restore_document", "It is out of the bin."),
    Act.ERASE: ("erase_document", "It is erased, with its file and its text."),
}


class Wishes(BaseModel):
    """How a document is to be read; what is empty stays as it was."""

    engine: str = ""
    language: str = ""
    profile: str = ""

    def params(self) -> dict[str, str]:
        """Give the arguments of read_again."""
        return {f"p_{name}": value for name, value in self.model_dump().items() if value}


@router.get("/{document_id}")
async def one(
    request: Request, visitor: visitors.Signed, document_id: uuid.UUID, run: int | None = None
) -> Response:
    """Show a document: how far it is, what was read (or in an earlier run), what can be done."""
    values = await _document(visitor, document_id, run)
    part = request.headers.get("HX-Target") == "document"
    return rendering.page(request, "document.html", part=part, **values)


@router.post("/{document_id}/read-again")
async def read_again(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    document_id: uuid.UUID,
    wishes: Annotated[Wishes, Form()],
) -> Response:
    """Put it into the queue once more."""
    await find(visitor, document_id)
    answer = await visitor.database.rpc(
        "read_again", p_document_id=str(document_id), **wishes.params()
    )
    return notices.answered(_path(document_id), answer, "It is in the queue again.")


@router.post("/{document_id}/{act}")
async def act(
    visitor: visitors.Signed, _acting: forgery.Acting, document_id: uuid.UUID, act: Act
) -> Response:
    """Do it, and lead back to the document, or to the others when it is no more."""
    await find(visitor, document_id)
    function, done = _ACTS[act]
    answer = await visitor.database.rpc(function, p_document_id=str(document_id))
    is_gone = act is Act.ERASE and answer["success"]
    return notices.answered(documents.PAGE.path if is_gone else _path(document_id), answer, done)


def _path(document_id: uuid.UUID) -> str:
    return f"{documents.PAGE.path}/{document_id}"


async def _made(
    document_id: uuid.UUID, form: str, visitor: visitors.Signed, used: parts.Used
) -> AsyncIterator[parts.Made]:
    """Keep the export until it is sent."""
    if form not in exports.FORMATS:
        raise HTTPException(404, f"there is no format {form}")
    async with used.export(visitor.database, str(document_id), form) as made:
        yield made


@router.get("/{document_id}/export/{form}")
async def export(made: Annotated[parts.Made, Depends(_made)]) -> Response:
    """Download what was read."""
    return FileResponse(made.path, media_type=made.media_type, filename=made.name)


async def find(visitor: visitors.Visitor, document_id: uuid.UUID) -> rows.Documents:
    """Give the document, or say that there is none for this person."""
    found = await visitor.database.select(tables.documents, where={"id": str(document_id)})
    if not found:
        raise HTTPException(404, "there is no such document, or not for you")
    return found[0]


async def _document(
    visitor: visitors.Visitor, document_id: uuid.UUID, run: int | None
) -> dict[str, Any]:
    document = await find(visitor, document_id)
    select, status = visitor.database.select, document["ocr_status"]
    (case,) = await select(tables.cases, columns="id,name", where={"id": document["case_id"]})
    return {
        "document": document,
        "case": case,
        "progress": await visitor.database.rpc("document_progress", p_document_id=str(document_id)),
        "pages": await _pages(visitor, document, run or document["run_id"]),
        "run": run or document["run_id"],
        "runs": await select(
            tables.ocr_runs, where={"document_id": str(document_id)}, order="id.desc"
        ),
        "versions": await _versions(visitor, document),
        "formats": exports.FORMATS if document["run_id"] and not document["deleted_at"] else {},
        "acts": _possible(document),
        "is_open": status in _OPEN and not document["deleted_at"],
    }


async def _pages(
    visitor: visitors.Visitor, document: Mapping[str, Any], run: int | None
) -> Sequence[Mapping[str, Any]]:
    if run is None:
        return []
    # What people made of it, or what an earlier run had read.
    table: Table[Any] = tables.page_texts if run == document["run_id"] else tables.ocr_pages
    return await visitor.database.select(
        table,
        columns="page_number,text,status,confidence,error",
        where={
            "run_id": run,
            "document_id": document["id"],
            "page_number": list(range(1, _PAGES_SHOWN + 1)),
        },
        order="page_number",
    )


async def _versions(
    visitor: visitors.Visitor, document: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """List the uploads of this name, newest first, when there are several."""
    rows = await visitor.database.select(
        tables.documents,
        columns="id,document_version,ocr_status,created_at,deleted_at",
        where={"case_id": document["case_id"], "name": document["name"]},
        order="document_version.desc",
        limit=100,
    )
    return rows if len(rows) > 1 else []


def _possible(document: Mapping[str, Any]) -> list[Act]:
    """List what makes sense in this state; whether this person may is the database's to say."""
    if document["deleted_at"]:
        return [Act.RESTORE, Act.ERASE]
    status = document["ocr_status"]
    fitting = {
        Act.READ_AGAIN: status in _READABLE_AGAIN,
        Act.CANCEL: status not in _ENDED,
        Act.DELETE: True,
        Act.ERASE: True,
    }
    return [act for act, fits in fitting.items() if fits]
