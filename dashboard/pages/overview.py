"""Overview: the current state of the system, updated live."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from pagewarden import errors, services
from pagewarden.dashboard import rendering, route, sessions
from pagewarden.database import rows, tables
from pagewarden.services import Services

PAGE = route.Page("Overview", "/overview", route.Audience.ADMIN)

router = APIRouter(route_class=route.Route, include_in_schema=False)

POLL_SECONDS = 1.5
# Counts a whole day, which changes slowly.
CRITERIA_SECONDS = 60.0
# The browser reconnects, with an access token that is valid for the next stream.
STREAM_SECONDS = sessions.RENEW_SECONDS - 60
# Workers claim a waiting document within seconds, functions on their schedule at the latest.
_MAX_WAIT_SECONDS = 90
_DAY, _WEEK = 24, 168


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of the system (running, idle or stalled) and the reason in one line."""

    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """A success criterion: its value and target as text, and "met", "missed" or "unknown"."""

    name: str
    value: str
    target: str
    state: str


@router.get(PAGE.path)
async def show_overview(request: Request, user: sessions.Admin) -> Response:
    """Show the state of the system."""
    values = {**await _read_values(user), "criteria": await _read_criteria(user)}
    return rendering.render_page(request, "overview.html", is_fragment=False, **values)


@router.get(f"{PAGE.path}/live")
async def stream_overview(
    request: Request, user: sessions.Admin, services: services.Current
) -> Response:
    """Stream the page whenever it changes."""
    return StreamingResponse(
        _stream_events(request, user, services), media_type="text/event-stream"
    )


async def _stream_events(
    request: Request, user: sessions.CurrentUser, services: Services
) -> AsyncIterator[str]:
    clock = asyncio.get_running_loop().time
    end, last = clock() + STREAM_SECONDS, None
    criteria, criteria_expire = list[Criterion](), clock()
    while clock() < end and not services.stopping.is_set():
        try:
            values = await _read_values(user)
            if clock() >= criteria_expire:
                criteria = await _read_criteria(user)
                criteria_expire = clock() + CRITERIA_SECONDS
        except errors.PagewardenError:
            return  # the page shows that it is disconnected, and reconnects
        content = rendering.render_html(
            request, "overview.html", is_fragment=True, criteria=criteria, **values
        )
        if content != last:
            yield _format_event(content)
            last = content
        else:
            yield ": keep-alive\n\n"
        await _wait_for_change(services)


async def _wait_for_change(services: Services) -> None:
    try:
        async with asyncio.timeout(POLL_SECONDS):
            await services.stopping.wait()
    except TimeoutError:
        return


def _format_event(content: str) -> str:
    return "".join(f"data: {line}\n" for line in content.splitlines()) + "\n"


async def _read_values(user: sessions.CurrentUser) -> dict[str, Any]:
    (health,) = await user.database.select(tables.ocr_system_health)
    lanes = await user.database.select(tables.lanes, columns="lane,paused_at,pause_reason")
    hours = await user.database.results_by_hour(hours=_WEEK)
    oldest = health["oldest_waiting_id"]
    waiting = await user.database.select(tables.documents, columns="id,name", where={"id": oldest})
    return {
        "health": health,
        "oldest": waiting[0] if waiting else None,
        "verdict": assess_health(health, lanes),
        "charts": _make_charts(hours),
    }


async def _read_criteria(user: sessions.CurrentUser) -> list[Criterion]:
    return [make_criterion(row) for row in await user.database.select(tables.ocr_success_criteria)]


def make_criterion(row: rows.OcrSuccessCriteria) -> Criterion:
    """Format a success criterion."""
    target = _format_amount(row["threshold"], row["unit"])
    return Criterion(
        row["criterion"],
        "—" if row["value"] is None else _format_amount(row["value"], row["unit"]),
        target if row["comparison"] == "=" else f"{row['comparison']} {target}",
        "unknown" if row["met"] is None else "met" if row["met"] else "missed",
    )


def _format_amount(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value * 100:.3g}%"
    return f"{value:.3g} s" if unit == "seconds" else f"{value:,.0f}"


def assess_health(health: rows.OcrSystemHealth, lanes: Sequence[rows.Lanes]) -> Verdict:
    """Tell whether documents are being read, and if not, why."""
    paused = [f"lane {x['lane']} is paused ({x['pause_reason']})" for x in lanes if x["paused_at"]]
    is_waiting = (health["oldest_waiting_seconds"] or 0) > _MAX_WAIT_SECONDS
    if health["stuck"]:
        return Verdict("stalled", f"{_count_documents(health['stuck'])} stuck")
    if paused and (health["queued"] or not health["processing"]):
        return Verdict("stalled", "; ".join(paused))
    if is_waiting and not health["processing"]:
        waiting = f"{_count_documents(health['queued'])} waiting"
        return Verdict(
            "stalled",
            f"{waiting}, but nothing reads them; check the pages Workers and Functions",
        )
    if health["processing"] or health["queued"]:
        return Verdict("running", f"{_count_documents(health['processing'])} being read")
    return Verdict("idle", "no documents are waiting")


def _count_documents(count: int) -> str:
    return "1 document is" if count == 1 else f"{count} documents are"


def _make_charts(hourly_results: Sequence[rows.HourlyResult]) -> list[rendering.Chart]:
    day = hourly_results[-_DAY:]
    return [
        _make_result_chart("Last day, by hour", day, "%H:00"),
        _make_result_chart("Last week, by hour", hourly_results, "%a %H:00"),
        _make_time_chart("Time to text, last day", day, "%H:00"),
        _make_time_chart("Time to text, last week", hourly_results, "%a %H:00"),
    ]


def _make_result_chart(
    title: str, hourly_results: Sequence[rows.HourlyResult], time_format: str
) -> rendering.Chart:
    done, dead = (
        sum(h["completed"] for h in hourly_results),
        sum(h["dead_lettered"] for h in hourly_results),
    )
    values = [
        (_format_hour(h, time_format), h["completed"], h["dead_lettered"]) for h in hourly_results
    ]
    return rendering.make_bar_chart(title, f"{done} completed, {dead} dead letters", values)


def _make_time_chart(
    title: str, hourly_results: Sequence[rows.HourlyResult], time_format: str
) -> rendering.Chart:
    values = [
        (_format_hour(h, time_format), round(h["avg_seconds_to_text"] or 0, 1), 0)
        for h in hourly_results
    ]
    longest = max(seconds for _, seconds, _ in values)
    return rendering.make_bar_chart(
        title, f"highest hourly average: {rendering.format_duration(longest)}", values, " s"
    )


def _format_hour(hourly_result: rows.HourlyResult, time_format: str) -> str:
    return dt.datetime.fromisoformat(hourly_result["hour"]).astimezone(dt.UTC).strftime(time_format)
