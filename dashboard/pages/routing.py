"""Routing: send files of unknown type to a lane, or reject them."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from pagewarden import errors, services, storage
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.dashboard.pages import documents
from pagewarden.database import tables
from pagewarden.ocr import file_types

PAGE = route.Page("Routing", "/routing", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 25

Ids = Annotated[list[uuid.UUID] | None, Form(alias="id")]
Notes = Annotated[str, Form(max_length=2000)]


class Cursor(lists.TaskCursor):
    """Position in this list: the last file of the previous page."""

    path = PAGE.path


@router.get("")
async def show_list(
    request: Request, user: sessions.Admin, cursor: Annotated[Cursor, Query()]
) -> Response:
    """Show files that await routing, with their metadata."""
    rows, next_url = await lists.list_tasks(user, cursor, ROWS, kind="routing")
    lanes = await user.database.select(tables.lanes, columns="lane,description", order="lane")
    return rendering.render_page(
        request,
        "routing.html",
        is_fragment=False,
        rows=rows,
        next_url=next_url,
        lanes=lanes,
        cursor=cursor,
    )


@router.get("/{document_id}/beginning")
async def show_first_bytes(
    request: Request, user: sessions.Admin, services: services.Current, document_id: uuid.UUID
) -> Response:
    """Show the first bytes of a file, and a guess of its type."""
    path = await documents.find_file_path(user, document_id)
    try:
        head = await storage.read_head(services.store, path, file_types.PREVIEW_BYTES)
        preview = file_types.preview(head)
    except errors.FileNotFound:
        preview = None
    is_fragment = bool(request.headers.get("HX-Request"))
    return rendering.render_page(
        request, "file_head.html", is_fragment=is_fragment, preview=preview
    )


@router.post("/send")
async def send(
    user: sessions.Admin,
    _token: csrf.FormToken,
    lane: Annotated[str, Form()] = "",
    ids: Ids = None,
    notes: Notes = "",
) -> Response:
    """Send the selected files to a lane."""
    if not ids:
        return flash.redirect_with_notice(PAGE.path, flash.NOTHING_SELECTED, is_error=True)
    if not lane:
        return flash.redirect_with_notice(
            PAGE.path, "No changes were made: select a lane.", is_error=True
        )
    answer = await user.database.route_documents(
        document_ids=[str(document_id) for document_id in ids],
        lane=lane,
        notes=notes.strip() or None,
    )
    message = f"Sent to lane {lane}: {flash.format_count(answer['done'], 'document')}."
    return flash.redirect_with_outcome(PAGE.path, answer["done"], message, answer["skipped"])


@router.post("/refuse")
async def reject_files(
    user: sessions.Admin,
    _token: csrf.FormToken,
    ids: Ids = None,
    notes: Notes = "",
) -> Response:
    """Reject the selected files, with a reason."""
    if not ids:
        return flash.redirect_with_notice(PAGE.path, flash.NOTHING_SELECTED, is_error=True)
    if not notes.strip():
        message = "No changes were made: enter a reason for the rejection; uploaders will see it."
        return flash.redirect_with_notice(PAGE.path, message, is_error=True)
    answer = await user.database.refuse_documents(
        document_ids=[str(document_id) for document_id in ids], reason=notes.strip()
    )
    count = flash.format_count(answer["done"], "document")
    message = f"Rejected: {count}. To undo this, use “Read again”."
    return flash.redirect_with_outcome(PAGE.path, answer["done"], message, answer["skipped"])
