"""Review: what waits for a person, because machines could not read it or are unsure."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from dashboard import choices, lists, navigation, rendering, route, visitors
from pagewarden import database
from pagewarden.database import rows

PAGE = navigation.Page("Review", "/review")

router = APIRouter(route_class=route.Route, include_in_schema=False)

ROWS = 50


class Filter(lists.Filter):
    """What of the list is wanted; after and after_id say where the last page ended."""

    path = PAGE.path

    case: str = ""
    after: str = ""
    after_id: str = ""

    async def read(self, source: database.Database, limit: int) -> list[rows.DoubtfulDocument]:
        """Read the documents that match; what is empty does not count."""
        return await source.list_doubts(
            case_id=self.case or None,
            after=self.after or None,
            after_id=self.after_id or None,
            limit=limit,
        )


@router.get(PAGE.path)
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the documents with pages that wait for a person, longest waiting first."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, **await _rows(visitor, chosen)}
    if not part:
        values["cases"] = await choices.cases(visitor, chosen.case)
    return rendering.page(request, "reviews.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    found = await chosen.read(visitor.database, ROWS + 1)

    def after(last: rows.DoubtfulDocument) -> str:
        return chosen.address(after=last["created_at"], after_id=last["document_id"])

    shown, more = lists.cut(found, ROWS, after)
    return {"rows": shown, "more": more}
