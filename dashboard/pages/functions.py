"""Functions: switch them on and off, set schedules, show recent runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from pagewarden import errors
from pagewarden.dashboard import csrf, flash, rendering, route, sessions
from pagewarden.database import rows

PAGE = route.Page("Functions", "/functions", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

# Called by users; their runs are not recorded.
USER_FUNCTIONS = {"upload-to-dropbox", "documents"}


@router.get("")
async def show_list(request: Request, user: sessions.Admin) -> Response:
    """Show all functions with their recent runs."""
    found = await user.database.list_functions()
    return rendering.render_page(
        request,
        "functions.html",
        rows=found,
        user_functions=USER_FUNCTIONS,
        describe_result=_describe_result,
    )


@router.post("/{name}/switch")
async def switch(
    user: sessions.Admin, _token: csrf.FormToken, name: str, on: Annotated[bool, Form()]
) -> Response:
    """Switch a function on or off, from the next call on."""
    answer = await user.database.set_function(function_name=name, enabled=on)
    return flash.redirect_with_answer(
        _function_url(name), answer, f"{name} is now {'on' if on else 'off'}."
    )


@router.post("/{name}/schedule")
async def set_schedule(
    user: sessions.Admin,
    _token: csrf.FormToken,
    name: str,
    schedule: Annotated[str, Form()] = "",
) -> Response:
    """Set or remove the schedule of a function."""
    try:
        answer = await user.database.set_function(function_name=name, schedule=schedule)
    except errors.InvalidArgument as exc:
        return flash.redirect_with_notice(
            _function_url(name), f"The schedule was not changed: {exc}", is_error=True
        )
    outcome = f"schedule {answer['schedule']}" if answer["schedule"] else "no schedule"
    return flash.redirect_with_answer(_function_url(name), answer, f"{name}: {outcome}.")


def _function_url(name: str) -> str:
    return f"{PAGE.path}#{name}" if name.replace("-", "").isalnum() else PAGE.path


def _describe_result(run: rows.FunctionRun) -> str:
    """Summarise the result of a run in one line."""
    if run["error"]:
        return str(run["error"])
    result = run["result"] or {}
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in result.items())
