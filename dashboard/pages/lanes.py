"""Lanes: what waits in each, which stands still and why; pause, drain, resume."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from dashboard import forgery, navigation, notices, outcomes, rendering, route, visitors

PAGE = navigation.Page("Lanes", "/lanes", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

COUNTED = 10_000
"""The database counts so far."""


@router.get("")
async def listed(request: Request, visitor: visitors.Admin) -> Response:
    """Show the lanes; the page asks for their figures again and again."""
    part = request.headers.get("HX-Target") == "lanes"
    rows = await visitor.database.list_lanes()
    return rendering.page(request, "lanes.html", part=part, rows=rows, counted=COUNTED)


@router.post("/{lane}/pause")
async def pause(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    lane: str,
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Hand out nothing more of a lane; what is in hand is read to its end."""
    if not reason.strip():
        return notices.after(PAGE.path, "Say why it is paused; others will ask.", bad=True)
    answer = await visitor.database.pause_lane(lane=lane, reason=reason.strip())
    held = sum(
        row["processing"] for row in await visitor.database.list_lanes() if row["lane"] == lane
    )
    left = f"still in hand: {outcomes.count(held, 'document')}" if held else "nothing is in hand"
    return notices.answered(PAGE.path, answer, f"Lane {lane} is paused; {left}.")


@router.post("/{lane}/resume")
async def resume(visitor: visitors.Admin, _acting: forgery.Acting, lane: str) -> Response:
    """Let a lane run again."""
    answer = await visitor.database.resume_lane(lane=lane)
    done = f"Lane {lane} runs again." if answer["was_paused"] else f"Lane {lane} was running."
    return notices.answered(PAGE.path, answer, done)
