"""Pool: the lanes, who serves them, and how that followed the work."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from dashboard import navigation, plots, rendering, route, visitors
from pagewarden.database import rows

PAGE = navigation.Page("Pool", "/pool", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

_HOURS = 6


@router.get("")
async def shown(request: Request, visitor: visitors.Admin) -> Response:
    """Show the pool; the page asks for it again and again."""
    part = request.headers.get("HX-Target") == "pool"
    seen = await visitor.database.pool_status(hours=_HOURS)
    return rendering.page(
        request, "pool.html", part=part, seen=seen, lanes=_lanes(seen), plots=_plots(seen)
    )


def _lanes(seen: rows.PoolStatusAnswer) -> list[dict[str, Any]]:
    """List the lanes that the pool serves, or that have something in them."""
    workers = seen["workers"]
    lanes = [
        {
            "lane": lane,
            "waiting": waiting,
            "is_paused": lane in seen["paused"],
            "serving": sum(worker["lane"] == lane for worker in workers),
            "reading": sum(worker["reads_lane"] == lane for worker in workers),
        }
        for lane, waiting in sorted(seen["backlog"].items())
    ]
    return [row for row in lanes if row["waiting"] or row["serving"] or row["reading"]]


def _plots(seen: rows.PoolStatusAnswer) -> list[plots.Plot]:
    points = seen["history"]
    if not points:
        return []
    served = sorted({lane for point in points for lane in point["allocation"]})
    return [
        *(_plot(f"Workers of {lane}", points, "allocation", lane) for lane in served),
        *(_plot(f"Waiting in {lane}", points, "backlog", lane) for lane in served),
        _switches(points),
    ]


def _plot(
    title: str,
    points: Sequence[rows.PoolHistoryPoint],
    what: Literal["allocation", "backlog"],
    lane: str,
) -> plots.Plot:
    values = [(_label(point), point[what].get(lane, 0), 0.0) for point in points]
    summary = f"last {values[-1][1]}, {max(value for _, value, _ in values)} at most"
    return plots.bars(title, summary, values)


def _switches(points: Sequence[rows.PoolHistoryPoint]) -> plots.Plot:
    values = [(_label(point), point["switches"], 0.0) for point in points]
    return plots.bars("Changes of lane", f"{sum(value for _, value, _ in values)} in all", values)


def _label(point: rows.PoolHistoryPoint) -> str:
    return dt.datetime.fromisoformat(point["at"]).astimezone(dt.UTC).strftime("%H:%M")
