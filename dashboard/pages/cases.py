"""Cases: what documents belong to; found and made here."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel

from dashboard import forgery, navigation, notices, rendering, route, visitors

PAGE = navigation.Page("Cases", "/cases")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 14
KINDS = {"client": "Cases of people", "registry": "Registry", "check": "Checks"}


class Filter(BaseModel):
    """What of the list is wanted; before and before_id say where the last page ended."""

    q: str = ""
    kind: str = ""
    bin: bool = False
    before: str = ""
    before_id: str = ""

    def params(self) -> dict[str, object]:
        """Give the arguments of list_cases; what is empty does not count."""
        given = {
            "p_search": self.q.strip(), "p_kind": self.kind,
            "p_before": self.before, "p_before_id": self.before_id,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value} | {"p_deleted": self.bin}

    def address(self, **changes: object) -> str:
        """Write the address of the list with these changes."""
        wanted = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"{PAGE.path}?{urlencode(wanted)}" if wanted else PAGE.path


@router.get("")
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the cases that match, newest first."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, "kinds": KINDS, **await _rows(visitor, chosen)}
    return rendering.page(request, "cases.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    # One more than is shown tells whether there is a next page.
    rows = await visitor.database.rpc("list_cases", **chosen.params(), p_limit=ROWS + 1)
    shown, more = rows[:ROWS], None
    if len(rows) > ROWS:
        last = shown[-1]
        more = chosen.address(before=last["created_at"], before_id=last["case_id"])
    return {"rows": shown, "more": more}


@router.post("")
async def create(
    visitor: visitors.Signed, _acting: forgery.Acting, name: Annotated[str, Form()] = ""
) -> Response:
    """Make a case of one's own, and lead to it."""
    if not name.strip():
        return notices.after(PAGE.path, "Give the case a name first.", bad=True)
    case_id = await visitor.database.rpc("create_case", p_name=name.strip())
    return notices.after(f"{PAGE.path}/{case_id}", "The case is there; documents can come.")
