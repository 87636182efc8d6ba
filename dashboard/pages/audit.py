"""Audit: who did what and when; whoever looks sees what their cases show, HAC sees all."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from dashboard import choices, lists, navigation, rendering, route, visitors

PAGE = navigation.Page("Audit", "/audit")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
CSV_ROWS = 50_000
_CSV_PAGE = 1000

COLUMNS = (
    "created_at", "email", "user_id", "action_type", "description", "case_name", "case_id",
    "document_name", "document_id", "field_changed", "old_value", "new_value", "about_email",
)  # fmt: skip


class Filter(lists.Filter):
    """What of the log is wanted; before and before_id say where the last page ended."""

    path = PAGE.path

    person: str = ""
    action: str = ""
    case: str = ""
    document: str = ""
    since: str = ""
    until: str = ""
    before: str = ""
    before_id: str = ""

    def params(self) -> dict[str, object]:
        """Give the arguments of list_acts; what is empty does not count."""
        given = {
            "p_email": self.person.strip(), "p_action_type": self.action, "p_case_id": self.case,
            "p_document_id": self.document, "p_since": _utc(self.since),
            "p_until": _utc(self.until), "p_before": self.before, "p_before_id": self.before_id,
        }  # fmt: skip
        return {name: value for name, value in given.items() if value}


def _utc(moment: str) -> str:
    """Say of a time from a form which zone is meant: that of all times on our pages."""
    return f"{moment}Z" if moment and moment[-1].isdigit() and len(moment) <= 19 else moment


@router.get("")
async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the lines that match, newest first."""
    part = request.headers.get("HX-Target") == "results"
    values = {"chosen": chosen, **await _rows(visitor, chosen)}
    if not part:
        values["actions"] = {
            word: word.replace("_", " ") for word in await visitor.database.rpc("list_action_types")
        }
        values["cases"] = await choices.cases(visitor, chosen.case)
    return rendering.page(request, "audit.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    rows = await visitor.database.rpc("list_acts", **chosen.params(), p_limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(before=last["created_at"], before_id=last["id"])

    shown, more = lists.cut(rows, ROWS, after)
    return {"rows": shown, "more": more, "download": chosen.address(f"{PAGE.path}/csv")}


@router.get("/csv")
async def download(
    visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> StreamingResponse:
    """Download what matches, for a spreadsheet: the newest fifty thousand lines at most."""
    # Asked before the answer begins, so that a senseless filter is refused as a page.
    first = await visitor.database.rpc("list_acts", **chosen.params(), p_limit=_CSV_PAGE)
    today = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    return StreamingResponse(
        _csv(visitor, chosen, first),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="audit-{today}.csv"'},
    )


async def _csv(
    visitor: visitors.Visitor, chosen: Filter, rows: Sequence[Mapping[str, Any]]
) -> AsyncIterator[str]:
    yield _lines([COLUMNS])
    for _ in range(CSV_ROWS // _CSV_PAGE):
        yield _lines([[_cell(row[name]) for name in COLUMNS] for row in rows])
        if len(rows) < _CSV_PAGE:
            return
        after = chosen.model_copy(
            update={"before": rows[-1]["created_at"], "before_id": rows[-1]["id"]}
        )
        rows = await visitor.database.rpc("list_acts", **after.params(), p_limit=_CSV_PAGE)


def _lines(rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _cell(value: object) -> str:
    """Write a value so that no spreadsheet takes it for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
