"""Review: what waits for a person, because machines could not read it or are unsure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from dashboard import choices, lists, navigation, rendering, route, visitors

PAGE = navigation.Page("Review", "/review")

router = APIRouter(route_class=route.Route, include_in_schema=False)

ROWS = 50


class Filter(lists.Filter):
    """What of the list is wanted; after and after_id say where the last page ended."""

    path = PAGE.path

    case: str = ""
    after: str = ""
    after_id: str = ""

    def params(self) -> dict[str, object]:
        """Give the arguments of list_doubts; what is empty does not count."""
        given = {"p_case_id": self.case, "p_after": self.after, "p_after_id": self.after_id}
        return {name: value for name, value in given.items() if value}


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
    rows = await visitor.database.rpc("list_doubts", **chosen.params(), p_limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(after=last["created_at"], after_id=last["document_id"])

    shown, more = lists.cut(rows, ROWS, after)
    return {"rows": shown, "more": more}
