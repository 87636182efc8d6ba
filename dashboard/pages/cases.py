"""Cases: what documents belong to; found and made here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import forgery, lists, navigation, notices, rendering, route, visitors

PAGE = navigation.Page("Cases", "/cases")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 14
KINDS = {"client": "Cases of people", "registry": "Registry", "check": "Checks"}


class Filter(lists.Filter):
    """What of the list is wanted; before and before_id say where the last page ended."""

    path = PAGE.path

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


@router.get("")
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the cases that match, newest first."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, "kinds": KINDS, **await _rows(visitor, chosen)}
    return rendering.page(request, "cases.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    rows = await visitor.database.rpc("list_cases", **chosen.params(), p_limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(before=last["created_at"], before_id=last["case_id"])

    shown, more = lists.cut(rows, ROWS, after)
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
