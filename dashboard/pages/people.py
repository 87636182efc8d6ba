"""People: all users, and which of them have the admin role (HAC)."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request, Response

from pagewarden import database
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.database import rows

PAGE = route.Page("People", "/people", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
ROLES = {"admin": "HAC", "none": "Not HAC"}


class Filter(lists.ListFilter):
    """Filters of the list; after and after_id are those of the last row of the previous page."""

    path = PAGE.path

    q: str = ""
    role: str = ""
    after: str = ""
    after_id: str = ""

    async def read(self, source: database.Database, limit: int) -> list[rows.ListedPerson]:
        """Return matching people; empty filters match all."""
        return await source.list_people(
            search=self.q.strip() or None,
            admin=self.role == "admin" if self.role in ROLES else None,
            after=self.after or None,
            after_id=self.after_id or None,
            limit=limit,
        )


class Action(enum.StrEnum):
    """Grant or revoke the role; the values are parts of paths."""

    GIVE = "give"
    TAKE = "take"


_DONE = {
    Action.GIVE: "{} now has the admin role (HAC).",
    Action.TAKE: "{} no longer has the admin role (HAC).",
}


@router.get("")
async def show_list(
    request: Request, user: sessions.Admin, filters: Annotated[Filter, Query()]
) -> Response:
    """Show matching people, by e-mail address."""
    is_fragment = request.headers.get("HX-Target") == "results"
    values = {"filters": filters, "roles": ROLES, **await _read_page(user, filters)}
    return rendering.render_page(
        request, "people.html", is_fragment=is_fragment, me=str(user.caller.user_id), **values
    )


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    found = await filters.read(user.database, ROWS + 1)

    def make_next_url(last: rows.ListedPerson) -> str:
        return filters.url(after=last["email"], after_id=last["user_id"])

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    return {"rows": shown, "next_url": next_url}


@router.post("/{user_id}/{act}")
async def change_role(
    user: sessions.Admin,
    _token: csrf.FormToken,
    user_id: uuid.UUID,
    action: Annotated[Action, Path(alias="act")],
    email: Annotated[str, Form()] = "the user",
) -> Response:
    """Grant or revoke the role, with immediate effect."""
    source = user.database
    change = source.grant_role if action is Action.GIVE else source.revoke_role
    answer = await change(user_id=str(user_id))
    return flash.redirect_with_answer(PAGE.path, answer, _DONE[action].format(email))
