"""One dead letter: what happened, what it looks like, and what is to become of it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, rendering, route, visitors
from dashboard.pages import dead_letters, document
from pagewarden.database import rows

router = APIRouter(prefix=dead_letters.PAGE.path, route_class=route.Route, include_in_schema=False)

_EVENTS = 100
_OPEN = {"pending", "investigating"}
# What read_again takes back, by where the decision put the document.
_UNDONE_BY_READING = {"abandoned": "failed", "manual": "pending_review"}

_KINDS = {
    "failure": "Attempt {attempt} failed",
    "lock_expired": "The worker of attempt {attempt} was not heard of again",
    "deadline": "Attempt {attempt} took too long",
    "outage": "Given back unread in attempt {attempt}: a service was away",
    "conflict": "Two changed it at once",
    "extraction": "The file could not be fetched",
    "completed": "Read in attempt {attempt}",
    "dead_letter": "Given up, as a dead letter",
    "dead_letter_investigate": "Investigation begun",
    "dead_letter_manual": "Sent to be typed by hand",
    "dead_letter_abandon": "Abandoned",
    "requeued": "Queued again",
    "recover_stuck": "Given back as stuck",
}


@router.get("/{dlq_id}")
async def one(request: Request, visitor: visitors.Signed, dlq_id: uuid.UUID) -> Response:
    """Show a dead letter with all that happened to its document."""
    letter = await find(visitor, dlq_id)
    history = await visitor.database.document_history(
        document_id=letter["document_id"], limit=_EVENTS
    )
    return rendering.page(
        request, "dead_letter.html",
        letter=letter,
        document=await document.find(visitor, uuid.UUID(letter["document_id"])),
        history=_told(history),
        acts=list(dead_letters.Act) if letter["status"] in _OPEN else [],
        may_type=letter["ocr_status"] == "pending_review",
        may_undo=_UNDONE_BY_READING.get(letter["status"]) == letter["ocr_status"],
    )  # fmt: skip


@router.post("/{dlq_id}/read-again")
async def undo(visitor: visitors.Admin, _acting: forgery.Acting, dlq_id: uuid.UUID) -> Response:
    """Take back that it was abandoned, or to be typed: it is read again."""
    letter = await find(visitor, dlq_id)
    answer = await visitor.database.read_again(document_id=letter["document_id"])
    return notices.answered(path(dlq_id), answer, "It is in the queue again.")


@router.post("/{dlq_id}/{act}")
async def decide(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    dlq_id: uuid.UUID,
    act: dead_letters.Act,
    notes: dead_letters.Notes = "",
) -> Response:
    """Decide, unless somebody else was quicker; then say who, and what."""
    answer = await visitor.database.resolve_dead_letter(
        dlq_id=str(dlq_id), action=act, notes=notes.strip() or None
    )
    said = dead_letters.DONE[act].format("this one")
    if other := answer["investigated_by"]:
        said = f"{said} {other} was still investigating it."
    typing = act is dead_letters.Act.MANUAL and answer["success"]
    return notices.answered(f"{path(dlq_id)}/type" if typing else path(dlq_id), answer, said)


async def find(visitor: visitors.Visitor, dlq_id: uuid.UUID) -> rows.ListedDeadLetter:
    """Give the dead letter, or say that there is none for this person."""
    found = await visitor.database.list_dead_letters(filter={"ids": [str(dlq_id)]}, limit=1)
    if not found:
        raise HTTPException(404, "there is no such dead letter, or not for you")
    return found[0]


def path(dlq_id: uuid.UUID) -> str:
    """Give the address of one."""
    return f"{dead_letters.PAGE.path}/{dlq_id}"


def _told(history: Sequence[rows.DocumentEvent]) -> list[dict[str, Any]]:
    """Add to each event what it was in words, and the class of its error."""
    return [{**event, "what": _what(event), "error_type": _error_type(event)} for event in history]


def _what(event: rows.DocumentEvent) -> str:
    kind = event["kind"]
    told = _KINDS.get(kind)
    return told.format(**event) if told else kind.replace("_", " ").capitalize()


def _error_type(event: rows.DocumentEvent) -> str | None:
    # Workers of others may send anything.
    details = event["details"] if event["source"] == "error" else None
    return str(details["type"]) if isinstance(details, dict) and "type" in details else None
