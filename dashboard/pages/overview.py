"""Overview: how things stand, as it changes."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from dashboard import navigation, parts, plots, rendering, route, visitors
from pagewarden import errors
from pagewarden.database import tables

PAGE = navigation.Page("Overview", "/overview", navigation.Audience.ADMIN)

router = APIRouter(route_class=route.Route, include_in_schema=False)

POLL_SECONDS = 1.5
# The browser comes again by itself, with a token that is good for as long.
STREAM_SECONDS = visitors.RENEW_SECONDS - 60
# Whoever reads all the time takes a waiting document within seconds.
_PATIENCE_SECONDS = 60
_DAY, _WEEK = 24, 168


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line that says how things stand; state is running, idle or stalled."""

    state: str
    why: str


@router.get(PAGE.path)
async def overview(request: Request, visitor: visitors.Admin) -> Response:
    """Show how things stand."""
    return rendering.page(request, "overview.html", part=False, **await _values(visitor))


@router.get(f"{PAGE.path}/live")
async def live(request: Request, visitor: visitors.Admin, used: parts.Used) -> Response:
    """Send the page again whenever something has changed."""
    return StreamingResponse(_events(request, visitor, used), media_type="text/event-stream")


async def _events(
    request: Request, visitor: visitors.Visitor, used: parts.Parts
) -> AsyncIterator[str]:
    clock = asyncio.get_running_loop().time
    end, last = clock() + STREAM_SECONDS, None
    while clock() < end and not used.stopping.is_set():
        try:
            values = await _values(visitor)
        except errors.PagewardenError:
            return  # The page says that it is not live any more, and asks again.
        shown = rendering.html(request, "overview.html", part=True, **values)
        if shown != last:
            yield _event(shown)
            last = shown
        else:
            yield ": still here\n\n"
        await _pause(used)


async def _pause(used: parts.Parts) -> None:
    try:
        async with asyncio.timeout(POLL_SECONDS):
            await used.stopping.wait()
    except TimeoutError:
        return


def _event(content: str) -> str:
    return "".join(f"data: {line}\n" for line in content.splitlines()) + "\n"


async def _values(visitor: visitors.Visitor) -> dict[str, Any]:
    (health,) = await visitor.database.select(tables.ocr_system_health)
    lanes = await visitor.database.select(tables.lanes, columns="lane,paused_at,pause_reason")
    hours = await visitor.database.rpc("results_by_hour", p_hours=_WEEK)
    oldest = health["oldest_waiting_id"]
    waiting = await visitor.database.select(
        tables.documents, columns="id,name", where={"id": oldest}
    )
    return {
        "health": health,
        "oldest": waiting[0] if waiting else None,
        "verdict": judge(health, lanes),
        "plots": _plots(hours),
    }


def judge(health: Mapping[str, Any], lanes: Sequence[Mapping[str, Any]]) -> Verdict:
    """Say whether documents are being read, and if not, why."""
    paused = [f"lane {x['lane']} is paused ({x['pause_reason']})" for x in lanes if x["paused_at"]]
    waits = (health["oldest_waiting_seconds"] or 0) > _PATIENCE_SECONDS
    if health["stuck"]:
        return Verdict("stalled", f"{_documents(health['stuck'])} stuck in the hands of a worker")
    if paused and (health["queued"] or not health["processing"]):
        return Verdict("stalled", "; ".join(paused))
    if waits and not health["processing"]:
        said = f"{_documents(health['queued'])} waiting, and nobody reads; start pagewarden work"
        return Verdict("stalled", said)
    if health["processing"] or health["queued"]:
        return Verdict("running", f"{_documents(health['processing'])} being read")
    return Verdict("idle", "nothing waits")


def _documents(count: int) -> str:
    return "1 document is" if count == 1 else f"{count} documents are"


def _plots(hours: Sequence[Mapping[str, Any]]) -> list[plots.Plot]:
    day = hours[-_DAY:]
    return [
        _results("Last day, by the hour", day, "%H:00"),
        _results("Last week, by the hour", hours, "%a %H:00"),
        _times("Time to text, last day", day, "%H:00"),
        _times("Time to text, last week", hours, "%a %H:00"),
    ]


def _results(title: str, hours: Sequence[Mapping[str, Any]], form: str) -> plots.Plot:
    done, dead = (sum(h[name] for h in hours) for name in ("completed", "dead_lettered"))
    values = [(_label(h, form), h["completed"], h["dead_lettered"]) for h in hours]
    return plots.bars(title, f"{done} completed, {dead} given up", values)


def _times(title: str, hours: Sequence[Mapping[str, Any]], form: str) -> plots.Plot:
    values = [(_label(h, form), round(h["avg_seconds_to_text"] or 0, 1), 0) for h in hours]
    longest = max(seconds for _, seconds, _ in values)
    return plots.bars(title, f"up to {rendering.duration(longest)} on average", values, " s")


def _label(hour: Mapping[str, Any], form: str) -> str:
    return dt.datetime.fromisoformat(hour["hour"]).astimezone(dt.UTC).strftime(form)
