"""Review: what waits for a person, because machines could not read it or are unsure."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from dashboard import navigation, rendering, route, visitors

PAGE = navigation.Page("Review", "/review")

router = APIRouter(route_class=route.Route, include_in_schema=False)

ROWS = 50


class Filter(BaseModel):
    """What of the list is wanted; after and after_id say where the last page ended."""

    case: str = ""
    after: str = ""
    after_id: str = ""

    def params(self) -> dict[str, object]:
        """Give the arguments of list_doubts; what is empty does not count."""
        given = {"p_case_id": self.case, "p_after": self.after, "p_after_id": self.after_id}
        return {name: value for name, value in given.items() if value}

    def address(self, **changes: object) -> str:
        """Write the address of the list with these changes."""
        wanted = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"{PAGE.path}?{urlencode(wanted)}"


@router.get(PAGE.path)
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the documents with pages that wait for a person, longest waiting first."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, **await _rows(visitor, chosen)}
    if not part:
        values["cases"] = await visitor.database.select(
            "cases", columns="id,name", order="name", limit=500
        )
    return rendering.page(request, "reviews.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    # One more than is shown tells whether there is a next page.
    rows = await visitor.database.rpc("list_doubts", **chosen.params(), p_limit=ROWS + 1)
    more = None
    if len(rows) > ROWS:
        last = rows[ROWS - 1]
        more = chosen.address(after=last["created_at"], after_id=last["document_id"])
    return {"rows": rows[:ROWS], "more": more}
