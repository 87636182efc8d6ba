"""Pool: workers, the lanes they serve, and the history of their allocation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from pagewarden.dashboard import rendering, route, sessions
from pagewarden.database import rows

PAGE = route.Page("Pool", "/pool", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

_HOURS = 6


@router.get("")
async def show_pool(request: Request, user: sessions.Admin) -> Response:
    """Show the pool; htmx reloads it."""
    is_fragment = request.headers.get("HX-Target") == "pool"
    pool = await user.database.pool_status(hours=_HOURS)
    return rendering.render_page(
        request,
        "pool.html",
        is_fragment=is_fragment,
        pool=pool,
        lanes=_list_lanes(pool),
        charts=_make_charts(pool),
    )


def _list_lanes(pool: rows.PoolStatusAnswer) -> list[dict[str, Any]]:
    """List the lanes with workers or waiting documents."""
    workers = pool["workers"]
    lanes = [
        {
            "lane": lane,
            "waiting": waiting,
            "is_paused": lane in pool["paused"],
            "serving": sum(worker["lane"] == lane for worker in workers),
            "reading": sum(worker["reads_lane"] == lane for worker in workers),
        }
        for lane, waiting in sorted(pool["backlog"].items())
    ]
    return [row for row in lanes if row["waiting"] or row["serving"] or row["reading"]]


def _make_charts(pool: rows.PoolStatusAnswer) -> list[rendering.Chart]:
    points = pool["history"]
    if not points:
        return []
    lanes = sorted({lane for point in points for lane in point["allocation"]})
    return [
        *(_make_chart(f"Workers in {lane}", points, "allocation", lane) for lane in lanes),
        *(_make_chart(f"Waiting in {lane}", points, "backlog", lane) for lane in lanes),
        _make_reassignment_chart(points),
    ]


def _make_chart(
    title: str,
    points: Sequence[rows.PoolHistoryPoint],
    key: Literal["allocation", "backlog"],
    lane: str,
) -> rendering.Chart:
    values = [(_format_time(point), point[key].get(lane, 0), 0.0) for point in points]
    summary = f"now {values[-1][1]}, maximum {max(value for _, value, _ in values)}"
    return rendering.make_bar_chart(title, summary, values)


def _make_reassignment_chart(points: Sequence[rows.PoolHistoryPoint]) -> rendering.Chart:
    values = [(_format_time(point), point["switches"], 0.0) for point in points]
    return rendering.make_bar_chart(
        "Reassigned workers", f"{sum(value for _, value, _ in values)} in total", values
    )


def _format_time(point: rows.PoolHistoryPoint) -> str:
    return dt.datetime.fromisoformat(point["at"]).astimezone(dt.UTC).strftime("%H:%M")
