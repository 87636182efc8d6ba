"""Tasks: open tasks of HAC; create, assign, prioritise and end them."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, Field

from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.database import rows

PAGE = route.Page("Tasks", "/tasks", route.Audience.ADMIN)

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
PRIORITIES = {name: name for name in ("urgent", "high", "normal", "low")}
WHOSE = {"all": "All", "mine": "Me", "unassigned": "Unassigned"}


class TaskOutcome(enum.StrEnum):
    """How a user ends a task."""

    DONE = "done"
    CANCELLED = "cancelled"


class Filter(lists.TaskCursor):
    """Filters of the list."""

    path = PAGE.path

    kind: str = ""
    whose: str = "all"
    priority: str = ""

    def first_page_url(self) -> str:
        """Return the URL of the first page of this list."""
        return self.url(after_urgency=None, after="", after_id="")


Filters = Annotated[Filter, Query()]


class TaskForm(BaseModel):
    """The form of a new task."""

    title: str = Field("", max_length=120)
    description: str = Field("", max_length=2000)
    priority: str = "normal"
    assigned_to: str = ""


@router.get("")
async def show_list(request: Request, user: sessions.Admin, filters: Filters) -> Response:
    """Show open tasks, most urgent first, then oldest first."""
    found, next_url = await lists.list_tasks(
        user, filters, ROWS,
        kind=filters.kind or None, whose=filters.whose or "all", priority=filters.priority or None,
    )  # fmt: skip
    people = await user.database.list_people(admin=True, limit=_PEOPLE)
    return rendering.render_page(
        request, "tasks.html",
        is_fragment=request.headers.get("HX-Target") == "results",
        rows=[{**row, "link": make_link(row), "by_hand": _can_end_manually(row)} for row in found],
        next_url=next_url, people=people, filters=filters, me=user.caller.user_id,
        kinds=KINDS, priorities=PRIORITIES, whose=WHOSE,
    )  # fmt: skip


@router.post("")
async def create(
    user: sessions.Admin,
    _token: csrf.FormToken,
    filters: Filters,
    form: Annotated[TaskForm, Form()],
) -> Response:
    """Create a task by hand."""
    if not form.title.strip():
        return flash.redirect_with_notice(
            filters.first_page_url(), "The task was not created: enter a title.", is_error=True
        )
    answer = await user.database.create_task(
        title=form.title.strip(),
        description=form.description.strip() or None,
        priority=form.priority,
        assigned_to=form.assigned_to or None,
    )
    return flash.redirect_with_answer(filters.first_page_url(), answer, "The task was created.")


@router.post("/{task_id}/assign")
async def assign(
    user: sessions.Admin,
    _token: csrf.FormToken,
    filters: Filters,
    task_id: uuid.UUID,
    to: Annotated[str, Form()] = "",
    had: Annotated[str, Form()] = "",
) -> Response:
    """Assign or release a task, unless its assignee has changed in the meantime."""
    answer = await user.database.assign_task(
        task_id=str(task_id), user_id=to or None, from_=had or None
    )
    is_mine = to == user.caller.user_id
    message = "Assigned to you." if is_mine else "Task assigned." if to else "Task released."
    return flash.redirect_with_answer(filters.url(), answer, message)


@router.post("/{task_id}/priority")
async def prioritise(
    user: sessions.Admin,
    _token: csrf.FormToken,
    filters: Filters,
    task_id: uuid.UUID,
    priority: Annotated[str, Form()],
) -> Response:
    """Change the priority of a task."""
    answer = await user.database.set_task_priority(task_id=str(task_id), priority=priority)
    return flash.redirect_with_answer(filters.url(), answer, f"Priority changed to {priority}.")


@router.post("/{task_id}/end")
async def end(
    user: sessions.Admin,
    _token: csrf.FormToken,
    filters: Filters,
    task_id: uuid.UUID,
    ending: Annotated[TaskOutcome, Form()],
) -> Response:
    """End a task that does not end automatically."""
    answer = await user.database.end_task(task_id=str(task_id), status=ending)
    return flash.redirect_with_answer(filters.url(), answer, f"The task was marked as {ending}.")


_LINKS = {
    "routing": ("/routing", "Send to a lane or reject"),
    "outage": ("/lanes", "Show the lane"),
    "alert": ("/alerts", "Show the alert"),
}


def make_link(task: rows.ListedTask) -> tuple[str, str] | None:
    """Return the URL of the page where a task is done, and its label."""
    dlq_id, document_id = task["metadata"].get("dlq_id"), task["document_id"]
    match task["kind"]:
        case "dead_letter":
            return f"/dead-letters/{dlq_id}", "Decide"
        case "review" if task["ocr_status"] == "pending_review" and dlq_id:
            return f"/dead-letters/{dlq_id}/type", "Type the text"
        case "review":
            return f"/documents/{document_id}/review", "Review"
        case kind:
            return _LINKS.get(kind)


def _can_end_manually(task: rows.ListedTask) -> bool:
    return (task["kind"], task["ocr_status"]) in {("other", None), ("review", "completed")}
