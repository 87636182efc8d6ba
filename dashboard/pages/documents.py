"""Documents: find them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from dashboard import choices, lists, navigation, rendering, route, visitors
from pagewarden.database import tables

PAGE = navigation.Page("Documents", "/documents")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
HITS = 20

# Of the filter, where queued means both kinds of it.
STATUSES = (
    "pending", "awaiting_file", "extracting", "extraction_failed", "queued", "processing",
    "completed", "dead_letter", "pending_review", "failed", "cancelled",
)  # fmt: skip


class Filter(lists.Filter):
    """What of the list is wanted; before and before_id say where the last page ended."""

    path = PAGE.path

    q: str = ""
    status: str = ""
    lane: str = ""
    case: str = ""
    bin: bool = False
    before: str = ""
    before_id: str = ""
    offset: int = 0

    def params(self) -> dict[str, object]:
        """Give the arguments of list_documents; what is empty does not count."""
        given = {
            "p_case_id": self.case, "p_status": self.status, "p_lane": self.lane,
            "p_name": self.q.strip(), "p_before": self.before, "p_before_id": self.before_id,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value} | {"p_deleted": self.bin}


@router.get("")
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the documents that match, and where their text says what is searched for."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, **await _rows(visitor, chosen), **await _hits(visitor, chosen)}
    if not part:
        values["cases"] = await choices.cases(visitor, chosen.case)
        values["lanes"] = await visitor.database.select(tables.lanes, columns="lane", order="lane")
    return rendering.page(request, "documents.html", part=part, statuses=STATUSES, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    rows = await visitor.database.rpc("list_documents", **chosen.params(), p_limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(before=last["created_at"], before_id=last["document_id"], offset=0)

    shown, more = lists.cut(rows, ROWS, after)
    return {"rows": shown, "more": more}


async def _hits(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    if not chosen.q.strip() or chosen.bin or chosen.before:
        return {"found": [], "more_found": None}
    case = {"p_case_id": chosen.case} if chosen.case else {}
    found = await visitor.database.rpc(
        "search_documents",
        p_query=chosen.q.strip(), p_limit=HITS + 1, p_offset=max(chosen.offset, 0), **case,
    )  # fmt: skip
    more = chosen.address(offset=chosen.offset + HITS) if len(found) > HITS else None
    return {"found": found[:HITS], "more_found": more}
