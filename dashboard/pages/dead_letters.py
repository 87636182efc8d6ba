"""Dead letters: what machines gave up on, by what went wrong, and what is to become of it."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import (
    choices,
    forgery,
    lists,
    navigation,
    notices,
    outcomes,
    rendering,
    route,
    visitors,
)
from pagewarden import dead_letters as resolving

PAGE = navigation.Page("Dead letters", "/dead-letters", navigation.Audience.ADMIN)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
GROUPS = 20

_STATUSES = ("pending", "investigating", "requeued", "manual", "abandoned")
_CATEGORIES = ("transient", "permanent", "resource", "configuration", "unknown")


class Act(enum.StrEnum):
    """What can be decided; the values are those of resolve_dead_letter, and parts of paths."""

    INVESTIGATE = "investigate"
    REQUEUE = "requeue"
    MANUAL = "manual"
    ABANDON = "abandon"


DONE = {
    Act.INVESTIGATE: "You are investigating {}.",
    Act.REQUEUE: "In the queue again: {}.",
    Act.MANUAL: "To be typed by hand: {}.",
    Act.ABANDON: "Abandoned: {}. Read again undoes it.",
}

Notes = Annotated[str, Form(max_length=2000)]


class Filter(lists.Filter):
    """Which are wanted; before and before_id say where the last page of them ended."""

    path = PAGE.path

    status: str = ""
    category: str = ""
    case: str = ""
    group: str = ""
    name: str = ""
    before: str = ""
    before_id: str = ""
    offset: int = 0

    def wanted(self) -> dict[str, str]:
        """Give the filter as the database has it; empty when nothing was chosen."""
        given = {
            "status": self.status, "error_category": self.category, "case_id": self.case,
            "error_group": self.group, "name": self.name.strip(),
        }  # fmt: skip
        return {name: value for name, value in given.items() if value}

    def first(self) -> str:
        """Write the address of the first page of this list."""
        return self.address(before="", before_id="", offset=0)


@router.get("")
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the groups, and the dead letters that match."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, **await _rows(visitor, chosen), **await _groups(visitor, chosen)}
    values["matching"] = await _count(visitor, chosen)
    values["now"] = dt.datetime.now(dt.UTC).isoformat()
    if not part:
        values["cases"] = await choices.cases(visitor, chosen.case)
    return rendering.page(
        request, "dead_letters.html", part=part, acts=list(Act),
        statuses={each: each for each in _STATUSES},
        categories={each: each for each in _CATEGORIES}, **values,
    )  # fmt: skip


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    rows = await visitor.database.list_dead_letters(
        filter=chosen.wanted(), before=chosen.before or None, before_id=chosen.before_id or None,
        limit=ROWS + 1,
    )  # fmt: skip

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(before=last["last_failed_at"], before_id=last["dlq_id"], offset=0)

    shown, more = lists.cut(rows, ROWS, after)
    return {"rows": shown, "more": more}


async def _groups(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    if chosen.group or chosen.before:
        return {"groups": [], "more_groups": None}
    groups = await visitor.database.dead_letter_groups(
        filter=chosen.wanted(), limit=GROUPS + 1, offset=max(chosen.offset, 0)
    )
    more = chosen.address(offset=chosen.offset + GROUPS) if len(groups) > GROUPS else None
    return {"groups": groups[:GROUPS], "more_groups": more}


async def _count(visitor: visitors.Visitor, chosen: Filter) -> int | None:
    """Count what an act on all would be about; nobody acts on everything there is."""
    if not visitor.is_admin or not chosen.wanted():
        return None
    return await visitor.database.count_dead_letters(filter=chosen.wanted())


@router.post("/selected")
async def act_on_selected(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    chosen: Annotated[Filter, Query()],
    act: Annotated[Act, Form()],
    ids: Annotated[list[uuid.UUID] | None, Form(alias="id")] = None,
    notes: Notes = "",
) -> Response:
    """Decide about the ones that are ticked."""
    if not ids:
        return notices.after(chosen.address(), outcomes.NOTHING_CHOSEN, bad=True)
    return await _resolve(visitor, chosen, {"ids": [str(each) for each in ids]}, act, notes)


@router.post("/all")
async def act_on_all(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    chosen: Annotated[Filter, Query()],
    act: Annotated[Act, Form()],
    seen_at: Annotated[str, Form()],
    notes: Notes = "",
) -> Response:
    """Decide about all that match, and had failed when they were counted."""
    wanted = chosen.wanted()
    if not wanted:
        said = "Nothing was done: choose a filter first. Nobody decides about all of them at once."
        return notices.after(chosen.address(), said, bad=True)
    return await _resolve(visitor, chosen, wanted | {"failed_before": seen_at}, act, notes)


async def _resolve(
    visitor: visitors.Visitor, chosen: Filter, wanted: dict[str, Any], act: Act, notes: str
) -> Response:
    outcome = await resolving.resolve(visitor.database, wanted, act, notes.strip() or None)
    said = DONE[act].format(outcomes.count(outcome.done, "dead letter"))
    return outcomes.after(chosen.first(), outcome.done, said, outcome.skipped)
