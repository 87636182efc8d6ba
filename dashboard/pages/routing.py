"""Waiting for routing: files of unknown type are sent to a lane, or refused."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import (
    beginnings,
    forgery,
    navigation,
    notices,
    outcomes,
    parts,
    rendering,
    route,
    visitors,
)
from dashboard.pages import pictures, task_lists
from pagewarden import errors
from pagewarden.database import tables

PAGE = navigation.Page("Routing", "/routing", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 25

Ids = Annotated[list[uuid.UUID] | None, Form(alias="id")]
Words = Annotated[str, Form(max_length=2000)]


class Place(task_lists.Place):
    """Where the last page of this list ended."""

    path = PAGE.path


@router.get("")
async def listed(
    request: Request, visitor: visitors.Admin, place: Annotated[Place, Query()]
) -> Response:
    """Show what nobody knew where to send, with what is known of it."""
    rows, more = await task_lists.page(visitor, place, ROWS, kind="routing")
    lanes = await visitor.database.select(tables.lanes, columns="lane,description", order="lane")
    return rendering.page(
        request, "routing.html", part=False, rows=rows, more=more, lanes=lanes, place=place
    )


@router.get("/{document_id}/beginning")
async def beginning(
    request: Request, visitor: visitors.Admin, used: parts.Used, document_id: uuid.UUID
) -> Response:
    """Show how a file begins, and what that may mean."""
    path = await pictures.path_of(visitor, document_id)
    try:
        found = beginnings.look(await used.links.beginning(path, beginnings.BYTES))
    except errors.FileNotThere:
        found = None
    part = bool(request.headers.get("HX-Request"))
    return rendering.page(request, "beginning.html", part=part, beginning=found)


@router.post("/send")
async def send(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    lane: Annotated[str, Form()] = "",
    ids: Ids = None,
    notes: Words = "",
) -> Response:
    """Send the ones that are ticked to a lane."""
    if not ids:
        return notices.after(PAGE.path, outcomes.NOTHING_CHOSEN, bad=True)
    if not lane:
        return notices.after(PAGE.path, "Nothing was done: choose a lane for them.", bad=True)
    answer = await visitor.database.route_documents(
        document_ids=[str(each) for each in ids], lane=lane, notes=notes.strip() or None
    )
    said = f"Sent to lane {lane}: {outcomes.count(answer['done'], 'document')}."
    return outcomes.after(PAGE.path, answer["done"], said, answer["skipped"])


@router.post("/refuse")
async def refuse(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    ids: Ids = None,
    notes: Words = "",
) -> Response:
    """Refuse the ones that are ticked, and say why."""
    if not ids:
        return notices.after(PAGE.path, outcomes.NOTHING_CHOSEN, bad=True)
    if not notes.strip():
        said = "Nothing was done: say why they are refused, for those who sent them."
        return notices.after(PAGE.path, said, bad=True)
    answer = await visitor.database.refuse_documents(
        document_ids=[str(each) for each in ids], reason=notes.strip()
    )
    said = f"Refused: {outcomes.count(answer['done'], 'document')}. Read again undoes it."
    return outcomes.after(PAGE.path, answer["done"], said, answer["skipped"])
