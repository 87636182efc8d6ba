"""Cases: what documents belong to; found and made here."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import forgery, lists, navigation, notices, rendering, route, visitors
from pagewarden import database
from pagewarden.database import rows

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

    async def read(self, source: database.Database, limit: int) -> list[rows.ListedCase]:
        """Read the cases that match; what is empty does not count."""
        return await source.list_cases(
            search=self.q.strip() or None,
            kind=self.kind or None,
            deleted=self.bin,
            before=self.before or None,
            before_id=self.before_id or None,
            limit=limit,
        )


@router.get("")
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the cases that match, newest first."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, "kinds": KINDS, **await _rows(visitor, chosen)}
    return rendering.page(request, "cases.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    found = await chosen.read(visitor.database, ROWS + 1)

    def after(last: rows.ListedCase) -> str:
        return chosen.address(before=last["created_at"], before_id=last["case_id"])

    shown, more = lists.cut(found, ROWS, after)
    return {"rows": shown, "more": more}


@router.post("")
async def create(
    visitor: visitors.Signed, _acting: forgery.Acting, name: Annotated[str, Form()] = ""
) -> Response:
    """Make a case of one's own, and lead to it."""
    if not name.strip():
        return notices.after(PAGE.path, "Give the case a name first.", bad=True)
    case_id = await visitor.database.create_case(name=name.strip())
    return notices.after(f"{PAGE.path}/{case_id}", "The case is there; documents can come.")
