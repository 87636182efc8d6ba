"""The dashboard as one router, to be included where / is free."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from starlette.exceptions import HTTPException

from dashboard import doors, parts, route, vendor, visitors
from dashboard.pages import (
    alerts,
    audit,
    case,
    cases,
    check_job,
    check_picture,
    checks,
    dead_letter,
    dead_letters,
    document,
    documents,
    functions,
    lanes,
    overview,
    people,
    pictures,
    pool,
    review,
    reviews,
    routing,
    stuck,
    tasks,
    typing_by_hand,
    uploads,
    volume,
    volume_files,
    volume_job,
    volume_page,
    volumes,
    workers,
)

PAGES = (
    overview,
    documents,
    cases,
    reviews,
    checks,
    volumes,
    tasks,
    dead_letters,
    stuck,
    routing,
    workers,
    pool,
    lanes,
    functions,
    alerts,
    people,
    audit,
)
"""In the order of the menu; each has a PAGE and a router."""

MENU = tuple(module.PAGE for module in PAGES)

BEHIND = (
    review,
    document,
    pictures,
    uploads,
    typing_by_hand,
    dead_letter,
    case,
    check_picture,
    check_job,
    volume_page,
    volume_files,
    volume,
    volume_job,
)
"""What pages lead to; each has a router."""

_STATIC = {path.name: path for path in (Path(__file__).parent / "static").iterdir()}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

_own = APIRouter(route_class=route.Route, include_in_schema=False)


def router() -> APIRouter:
    """Make the routes; app.state.dashboard must have the parts before the first request."""
    made = APIRouter()
    made.include_router(_own)
    made.include_router(doors.router)
    for module in (*PAGES, *BEHIND):
        made.include_router(module.router)
    return made


@_own.get("/")
async def home(visitor: visitors.Signed, used: parts.Used) -> Response:
    """Lead to the first page that this person may see."""
    first = next(page for page in used.pages if page.is_for(admin=visitor.is_admin))
    return RedirectResponse(first.path, 303)


@_own.get("/static/vendor/{name}")
async def foreign_code(name: str) -> Response:
    """Hand out code of others."""
    return _kept(vendor.answer(name))


@_own.get("/static/{name}")
async def own_code(name: str, request: Request) -> Response:
    """Hand out our own style and script."""
    path = _STATIC.get(name)
    if path is None:
        raise HTTPException(404, f"there is no {request.url.path}")
    return _kept(FileResponse(path, media_type=_TYPES[path.suffix]))


def _kept(response: Response) -> Response:
    # A new version counts at once.
    response.headers["Cache-Control"] = "no-cache"
    return response
