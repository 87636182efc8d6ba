"""People: who can sign in, and who is one of HAC."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import forgery, lists, navigation, notices, rendering, route, visitors

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

    def params(self) -> dict[str, object]:
        """Give the arguments of list_people; what is empty does not count."""
        given: dict[str, object] = {
            "p_search": self.q.strip(), "p_after": self.after, "p_after_id": self.after_id,
        }  # fmt: skip
        chosen = {name: value for name, value in given.items() if value}
        return chosen | ({"p_admin": self.role == "admin"} if self.role in ROLES else {})


class Act(enum.StrEnum):
    """What can be done about a role; the values are parts of paths."""

    GIVE = "give"
    TAKE = "take"


_ACTS = {
    Act.GIVE: ("grant_role", "{} is one of HAC now."),
    Act.TAKE: ("revoke_role", "{} is not one of HAC any more."),
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
    rows = await visitor.database.rpc("list_people", **chosen.params(), p_limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(after=last["email"], after_id=last["user_id"])

    shown, more = lists.cut(rows, ROWS, after)
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
    function, done = _ACTS[act]
    answer = await visitor.database.rpc(function, p_user_id=str(user_id))
    return notices.answered(PAGE.path, answer, done.format(email))
