"""Tasks: what waits for HAC, who does it, and where."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, Field

from dashboard import forgery, navigation, notices, rendering, route, visitors
from dashboard.pages import task_lists
from pagewarden.database import rows

PAGE = navigation.Page("Tasks", "/tasks", navigation.Audience.ADMIN)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
_PEOPLE = 200

KINDS = {
    "dead_letter": "Dead letter",
    "review": "Review",
    "routing": "Routing",
    "outage": "Outage",
    "alert": "Alert",
    "other": "Other",
}
PRIORITIES = {each: each for each in ("urgent", "high", "normal", "low")}
WHOSE = {"all": "Everybody's", "mine": "Mine", "unassigned": "Nobody's"}


class Ending(enum.StrEnum):
    """How a task ends by hand."""

    DONE = "done"
    CANCELLED = "cancelled"


class Filter(task_lists.Place):
    """Which tasks are wanted."""

    path = PAGE.path

    kind: str = ""
    whose: str = "all"
    priority: str = ""

    def first(self) -> str:
        """Write the address of the first page of this list."""
        return self.address(after_urgency=None, after="", after_id="")


Chosen = Annotated[Filter, Query()]


class Noted(BaseModel):
    """A task as somebody writes it down."""

    title: str = Field("", max_length=120)
    description: str = Field("", max_length=2000)
    priority: str = "normal"
    assigned_to: str = ""


@router.get("")
async def listed(request: Request, visitor: visitors.Admin, chosen: Chosen) -> Response:
    """Show open tasks, the most urgent first, then the oldest."""
    found, more = await task_lists.page(
        visitor, chosen, ROWS,
        kind=chosen.kind or None, whose=chosen.whose or "all", priority=chosen.priority or None,
    )  # fmt: skip
    people = await visitor.database.list_people(admin=True, limit=_PEOPLE)
    return rendering.page(
        request, "tasks.html",
        part=request.headers.get("HX-Target") == "results",
        rows=[{**row, "place": place_of(row), "by_hand": _ends_by_hand(row)} for row in found],
        more=more, people=people, chosen=chosen, me=visitor.caller.user_id,
        kinds=KINDS, priorities=PRIORITIES, whose=WHOSE,
    )  # fmt: skip


@router.post("")
async def create(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    chosen: Chosen,
    noted: Annotated[Noted, Form()],
) -> Response:
    """Note something that somebody is to do."""
    if not noted.title.strip():
        return notices.after(chosen.first(), "Nothing was noted: say what is to be done.", bad=True)
    answer = await visitor.database.create_task(
        title=noted.title.strip(),
        description=noted.description.strip() or None,
        priority=noted.priority,
        assigned_to=noted.assigned_to or None,
    )
    return notices.answered(chosen.first(), answer, "The task is noted.")


@router.post("/{task_id}/assign")
async def assign(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    chosen: Chosen,
    task_id: uuid.UUID,
    to: Annotated[str, Form()] = "",
    had: Annotated[str, Form()] = "",
) -> Response:
    """Give a task to somebody, or back to all, unless it changed hands meanwhile."""
    answer = await visitor.database.assign_task(
        task_id=str(task_id), user_id=to or None, from_=had or None
    )
    mine = to == visitor.caller.user_id
    said = "It is yours." if mine else "It is assigned." if to else "It is given back."
    return notices.answered(chosen.address(), answer, said)


@router.post("/{task_id}/priority")
async def prioritise(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    chosen: Chosen,
    task_id: uuid.UUID,
    priority: Annotated[str, Form()],
) -> Response:
    """Make a task more urgent, or less."""
    answer = await visitor.database.set_task_priority(task_id=str(task_id), priority=priority)
    return notices.answered(chosen.address(), answer, f"Its priority is {priority}.")


@router.post("/{task_id}/end")
async def end(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    chosen: Chosen,
    task_id: uuid.UUID,
    ending: Annotated[Ending, Form()],
) -> Response:
    """End a task that nothing else ends."""
    answer = await visitor.database.end_task(task_id=str(task_id), status=ending)
    return notices.answered(chosen.address(), answer, f"The task is {ending}.")


_PLACES = {
    "routing": ("/routing", "Send to a lane, or refuse"),
    "outage": ("/lanes", "See the lane"),
    "alert": ("/alerts", "See the alert"),
}


def place_of(task: rows.ListedTask) -> tuple[str, str] | None:
    """Give the address where a task gets done, and what to call it."""
    dlq_id, document_id = task["metadata"].get("dlq_id"), task["document_id"]
    match task["kind"]:
        case "dead_letter":
            return f"/dead-letters/{dlq_id}", "Decide"
        case "review" if task["ocr_status"] == "pending_review" and dlq_id:
            return f"/dead-letters/{dlq_id}/type", "Type the text"
        case "review":
            return f"/documents/{document_id}/review", "Review"
        case kind:
            return _PLACES.get(kind)


def _ends_by_hand(task: rows.ListedTask) -> bool:
    return (task["kind"], task["ocr_status"]) in {("other", None), ("review", "completed")}
