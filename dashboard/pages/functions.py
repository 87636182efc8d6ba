"""Functions: on or off, when they are called, how their last runs ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from dashboard import forgery, navigation, notices, rendering, route, visitors
from pagewarden import errors
from pagewarden.database import rows

PAGE = navigation.Page("Functions", "/functions", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

# Their documents tell of their calls, of which there are too many to note.
OF_PEOPLE = {"upload-to-dropbox", "documents"}


@router.get("")
async def listed(request: Request, visitor: visitors.Admin) -> Response:
    """Show every function with its last runs."""
    found = await visitor.database.list_functions()
    return rendering.page(request, "functions.html", rows=found, of_people=OF_PEOPLE, said=_said)


@router.post("/{name}/switch")
async def switch(
    visitor: visitors.Admin, _acting: forgery.Acting, name: str, on: Annotated[bool, Form()]
) -> Response:
    """Switch a function on or off; it counts for the next call."""
    answer = await visitor.database.set_function(function_name=name, enabled=on)
    return notices.answered(_place(name), answer, f"{name} is {'on' if on else 'off'}.")


@router.post("/{name}/schedule")
async def schedule(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    name: str,
    schedule: Annotated[str, Form()] = "",
) -> Response:
    """Say when a function is called."""
    try:
        answer = await visitor.database.set_function(function_name=name, schedule=schedule)
    except errors.InvalidCall as exc:
        return notices.after(_place(name), f"The schedule stays as it was: {exc}", bad=True)
    then = f"is called at {answer['schedule']}" if answer["schedule"] else "has no schedule"
    return notices.answered(_place(name), answer, f"{name} {then}.")


def _place(name: str) -> str:
    return f"{PAGE.path}#{name}" if name.replace("-", "").isalnum() else PAGE.path


def _said(run: rows.FunctionRun) -> str:
    """Say in a line what came of a run."""
    if run["error"]:
        return str(run["error"])
    result = run["result"] or {}
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in result.items())
