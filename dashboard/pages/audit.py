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
from pagewarden import database
from pagewarden.database import rows

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

    async def read(self, source: database.Database, limit: int) -> list[rows.ListedAct]:
        """Read the lines that match; what is empty does not count."""
        return await source.list_acts(
            email=self.person.strip() or None,
            action_type=self.action or None,
            case_id=self.case or None,
            document_id=self.document or None,
            since=_utc(self.since) or None,
            until=_utc(self.until) or None,
            before=self.before or None,
            before_id=self.before_id or None,
            limit=limit,
        )


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
            word: word.replace("_", " ") for word in await visitor.database.list_action_types()
        }
        values["cases"] = await choices.cases(visitor, chosen.case)
    return rendering.page(request, "audit.html", part=part, **values)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    found = await chosen.read(visitor.database, ROWS + 1)

    def after(last: rows.ListedAct) -> str:
        return chosen.address(before=last["created_at"], before_id=last["id"])

    shown, more = lists.cut(found, ROWS, after)
    return {"rows": shown, "more": more, "download": chosen.address(f"{PAGE.path}/csv")}


@router.get("/csv")
async def download(
    visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> StreamingResponse:
    """Download what matches, for a spreadsheet: the newest fifty thousand lines at most."""
    # Asked before the answer begins, so that a senseless filter is refused as a page.
    first = await chosen.read(visitor.database, _CSV_PAGE)
    today = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    return StreamingResponse(
        _csv(visitor, chosen, first),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="audit-{today}.csv"'},
    )


async def _csv(
    visitor: visitors.Visitor, chosen: Filter, lines: Sequence[rows.ListedAct]
) -> AsyncIterator[str]:
    yield _lines([COLUMNS])
    for _ in range(CSV_ROWS // _CSV_PAGE):
        yield _lines([_cells(line) for line in lines])
        if len(lines) < _CSV_PAGE:
            return
        after = chosen.model_copy(
            update={"before": lines[-1]["created_at"], "before_id": lines[-1]["id"]}
        )
        lines = await after.read(visitor.database, _CSV_PAGE)


def _lines(cells: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(cells)
    return out.getvalue()


def _cells(line: Mapping[str, object]) -> list[str]:
    return [_cell(line[name]) for name in COLUMNS]


def _cell(value: object) -> str:
    """Write a value so that no spreadsheet takes it for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
