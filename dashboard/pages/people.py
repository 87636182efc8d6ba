"""People: who can sign in, and who is one of HAC."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import forgery, lists, navigation, notices, rendering, route, visitors
from pagewarden import database
from pagewarden.database import rows

PAGE = navigation.Page("People", "/people", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
ROLES = {"admin": "HAC", "none": "Not HAC"}


class Filter(lists.Filter):
    """Who is wanted; after and after_id say where the last page ended."""

    path = PAGE.path

    q: str = ""
    role: str = ""
    after: str = ""
    after_id: str = ""

    async def read(self, source: database.Database, limit: int) -> list[rows.ListedPerson]:
        """Read the people who match; what is empty does not count."""
        return await source.list_people(
            search=self.q.strip() or None,
            admin=self.role == "admin" if self.role in ROLES else None,
            after=self.after or None,
            after_id=self.after_id or None,
            limit=limit,
        )


class Act(enum.StrEnum):
    """What can be done about a role; the values are parts of paths."""

    GIVE = "give"
    TAKE = "take"


_DONE = {
    Act.GIVE: "{} is one of HAC now.",
    Act.TAKE: "{} is not one of HAC any more.",
}


@router.get("")
async def listed(
    request: Request, visitor: visitors.Admin, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the people by address."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, "roles": ROLES, **await _rows(visitor, chosen)}
    return rendering.page(
        request, "people.html", part=part, me=str(visitor.caller.user_id), **values
    )


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    found = await chosen.read(visitor.database, ROWS + 1)

    def after(last: rows.ListedPerson) -> str:
        return chosen.address(after=last["email"], after_id=last["user_id"])

    shown, more = lists.cut(found, ROWS, after)
    return {"rows": shown, "more": more}


@router.post("/{user_id}/{act}")
async def act(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    user_id: uuid.UUID,
    act: Act,
    email: Annotated[str, Form()] = "the person",
) -> Response:
    """Give or take the role, at once."""
    source = visitor.database
    change = source.grant_role if act is Act.GIVE else source.revoke_role
    answer = await change(user_id=str(user_id))
    return notices.answered(PAGE.path, answer, _DONE[act].format(email))
