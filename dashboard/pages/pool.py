"""Pool: the lanes, who serves them, and how that followed the work."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response

from dashboard import navigation, plots, rendering, route, visitors

PAGE = navigation.Page("Pool", "/pool", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

_HOURS = 6


@router.get("")
async def shown(request: Request, visitor: visitors.Admin) -> Response:
    """Show the pool; the page asks for it again and again."""
    part = request.headers.get("HX-Target") == "pool"
    seen = await visitor.database.rpc("pool_status", p_hours=_HOURS)
    return rendering.page(
        request, "pool.html", part=part, seen=seen, lanes=_lanes(seen), plots=_plots(seen)
    )


def _lanes(seen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the lanes that the pool serves, or that have something in them."""
    workers = seen["workers"]
    rows = [
        {
            "lane": lane,
            "waiting": waiting,
            "is_paused": lane in seen["paused"],
            "serving": sum(worker["lane"] == lane for worker in workers),
            "reading": sum(worker["reads_lane"] == lane for worker in workers),
        }
        for lane, waiting in sorted(seen["backlog"].items())
    ]
    return [row for row in rows if row["waiting"] or row["serving"] or row["reading"]]


def _plots(seen: Mapping[str, Any]) -> list[plots.Plot]:
    points = seen["history"]
    if not points:
        return []
    served = sorted({lane for point in points for lane in point["allocation"]})
    return [
        *(_plot(f"Workers of {lane}", points, "allocation", lane) for lane in served),
        *(_plot(f"Waiting in {lane}", points, "backlog", lane) for lane in served),
        _switches(points),
    ]


def _plot(title: str, points: Sequence[Mapping[str, Any]], what: str, lane: str) -> plots.Plot:
    values = [(_label(point), point[what].get(lane, 0), 0.0) for point in points]
    summary = f"last {values[-1][1]}, {max(value for _, value, _ in values)} at most"
    return plots.bars(title, summary, values)


def _switches(points: Sequence[Mapping[str, Any]]) -> plots.Plot:
    values = [(_label(point), point["switches"], 0.0) for point in points]
    return plots.bars("Changes of lane", f"{sum(value for _, value, _ in values)} in all", values)


def _label(point: Mapping[str, Any]) -> str:
    return dt.datetime.fromisoformat(point["at"]).astimezone(dt.UTC).strftime("%H:%M")
