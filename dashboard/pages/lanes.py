"""Lanes: queue lengths and states; pause, drain and resume."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from pagewarden.dashboard import csrf, flash, rendering, route, sessions

PAGE = route.Page("Lanes", "/lanes", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

COUNTED = 10_000
"""The database stops counting documents at this number."""


@router.get("")
async def show_list(request: Request, user: sessions.Admin) -> Response:
    """Show the lanes; htmx reloads their figures."""
    is_fragment = request.headers.get("HX-Target") == "lanes"
    rows = await user.database.list_lanes()
    return rendering.render_page(
        request, "lanes.html", is_fragment=is_fragment, rows=rows, counted=COUNTED
    )


@router.post("/{lane}/pause")
async def pause(
    user: sessions.Admin,
    _token: csrf.FormToken,
    lane: str,
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Pause a lane; claimed documents are still finished."""
    if not reason.strip():
        return flash.redirect_with_notice(PAGE.path, "Enter a reason for the pause.", is_error=True)
    answer = await user.database.pause_lane(lane=lane, reason=reason.strip())
    in_progress = sum(
        row["processing"] for row in await user.database.list_lanes() if row["lane"] == lane
    )
    count = flash.format_count(in_progress, "document")
    state = f"{count} in progress" if in_progress else "drained"
    return flash.redirect_with_answer(PAGE.path, answer, f"Lane {lane} is paused: {state}.")


@router.post("/{lane}/resume")
async def resume(user: sessions.Admin, _token: csrf.FormToken, lane: str) -> Response:
    """Resume a lane."""
    answer = await user.database.resume_lane(lane=lane)
    done = f"Lane {lane} resumed." if answer["was_paused"] else f"Lane {lane} was not paused."
    return flash.redirect_with_answer(PAGE.path, answer, done)
