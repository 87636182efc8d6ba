"""Audit: who did what and when; users see entries of their own cases, HAC sees all."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from pagewarden import database
from pagewarden.dashboard import lists, rendering, route, sessions
from pagewarden.database import rows

PAGE = route.Page("Audit", "/audit")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
CSV_ROWS = 50_000
_CSV_PAGE = 1000

COLUMNS = (
    "created_at", "email", "user_id", "action_type", "description", "case_name", "case_id",
    "document_name", "document_id", "field_changed", "old_value", "new_value", "about_email",
)  # fmt: skip


class Filter(lists.ListFilter):
    """Filters of the log; before and before_id are those of the previous page's last entry."""

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
        """Return matching entries; empty filters match all."""
        return await source.list_acts(
            email=self.person.strip() or None,
            action_type=self.action or None,
            case_id=self.case or None,
            document_id=self.document or None,
            since=_as_utc(self.since) or None,
            until=_as_utc(self.until) or None,
            before=self.before or None,
            before_id=self.before_id or None,
            limit=limit,
        )


def _as_utc(timestamp: str) -> str:
    """Mark a time from a form as UTC, like all times in the dashboard."""
    return (
        f"{timestamp}Z"
        if timestamp and timestamp[-1].isdigit() and len(timestamp) <= 19
        else timestamp
    )


@router.get("")
async def show_log(
    request: Request, user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> Response:
    """Show matching entries, newest first."""
    is_fragment = request.headers.get("HX-Target") == "results"
    values = {"filters": filters, **await _read_page(user, filters)}
    if not is_fragment:
        values["actions"] = {
            name: name.replace("_", " ") for name in await user.database.list_action_types()
        }
        values["cases"] = await lists.list_cases(user, filters.case)
    return rendering.render_page(request, "audit.html", is_fragment=is_fragment, **values)


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    found = await filters.read(user.database, ROWS + 1)

    def make_next_url(last: rows.ListedAct) -> str:
        return filters.url(before=last["created_at"], before_id=last["id"])

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    return {"rows": shown, "next_url": next_url, "download": filters.url(f"{PAGE.path}/csv")}


@router.get("/csv")
async def download(
    user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> StreamingResponse:
    """Download the newest matching entries as CSV, at most CSV_ROWS."""
    # Read before the response begins, so that an invalid filter leads to an error page.
    first = await filters.read(user.database, _CSV_PAGE)
    today = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    return StreamingResponse(
        _stream_csv(user, filters, first),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="audit-{today}.csv"'},
    )


async def _stream_csv(
    user: sessions.CurrentUser, filters: Filter, entries: Sequence[rows.ListedAct]
) -> AsyncIterator[str]:
    yield _format_rows([COLUMNS])
    for _ in range(CSV_ROWS // _CSV_PAGE):
        yield _format_rows([_make_cells(entry) for entry in entries])
        if len(entries) < _CSV_PAGE:
            return
        next_page = filters.model_copy(
            update={"before": entries[-1]["created_at"], "before_id": entries[-1]["id"]}
        )
        entries = await next_page.read(user.database, _CSV_PAGE)


def _format_rows(rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _make_cells(entry: Mapping[str, object]) -> list[str]:
    return [_make_cell(entry[name]) for name in COLUMNS]


def _make_cell(value: object) -> str:
    """Format a value so that spreadsheets do not evaluate it as a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
