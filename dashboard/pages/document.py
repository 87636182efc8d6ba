"""One document: how far it is, what was read, what can be done with it."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, parts, rendering, route, visitors
from dashboard.pages import documents
from pagewarden import exports

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


_ACTS = {
    Act.READ_AGAIN: ("read_again", "It is in the queue again."),
    Act.CANCEL: ("cancel_document", "It is cancelled; read it again to undo that."),
    Act.DELETE: ("delete_document", "It is in the bin."),
    Act.RESTORE: ("restore_document", "It is out of the bin."),
}


@router.get("/{document_id}")
async def one(request: Request, visitor: visitors.Signed, document_id: uuid.UUID) -> Response:
    """Show a document: how far it is, what was read, what can be done."""
    values = await _document(visitor, document_id)
    part = request.headers.get("HX-Target") == "document"
    return rendering.page(request, "document.html", part=part, **values)


@router.post("/{document_id}/{act}")
async def act(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    document_id: uuid.UUID,
    act: Act,
) -> Response:
    """Do it, and lead back to the document."""
    await _find(visitor, document_id)
    function, done = _ACTS[act]
    answer = await visitor.database.rpc(function, p_document_id=str(document_id))
    return notices.answered(f"{documents.PAGE.path}/{document_id}", answer, done)


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


async def _find(visitor: visitors.Visitor, document_id: uuid.UUID) -> Mapping[str, Any]:
    rows = await visitor.database.select("documents", where={"id": str(document_id)})
    if not rows:
        raise HTTPException(404, "there is no such document, or not for you")
    return rows[0]


async def _document(visitor: visitors.Visitor, document_id: uuid.UUID) -> dict[str, Any]:
    document = await _find(visitor, document_id)
    select, status = visitor.database.select, document["ocr_status"]
    pages = []
    if document["run_id"] is not None:
        columns = "page_number,text,status,confidence,error"
        where = {"run_id": document["run_id"], "page_number": list(range(1, _PAGES_SHOWN + 1))}
        pages = await select("ocr_pages", columns=columns, where=where, order="page_number")
    (case,) = await select("cases", columns="id,name", where={"id": document["case_id"]})
    return {
        "document": document,
        "case": case,
        "progress": await visitor.database.rpc("document_progress", p_document_id=str(document_id)),
        "pages": pages,
        "formats": exports.FORMATS if document["run_id"] and not document["deleted_at"] else {},
        "acts": _possible(document),
        "is_open": status in _OPEN and not document["deleted_at"],
    }


def _possible(document: Mapping[str, Any]) -> list[Act]:
    """List what makes sense in this state; whether this person may is the database's to say."""
    if document["deleted_at"]:
        return [Act.RESTORE]
    status = document["ocr_status"]
    fitting = {
        Act.READ_AGAIN: status in _READABLE_AGAIN,
        Act.CANCEL: status not in _ENDED,
        Act.DELETE: True,
    }
    return [act for act, fits in fitting.items() if fits]
