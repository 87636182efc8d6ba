"""The router of the dashboard, whose paths begin at /."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from starlette.exceptions import HTTPException

from pagewarden.dashboard import login, rendering, route, sessions
from pagewarden.dashboard.pages import (
    alerts,
    audit,
    cases,
    checks,
    dead_letters,
    documents,
    functions,
    lanes,
    overview,
    people,
    pool,
    review,
    routing,
    stuck,
    tasks,
    workers,
)
from pagewarden.dashboard.pages.volumes import job, jobs, volume
from pagewarden.dashboard.pages.volumes import page as volumes_page

PAGES = (
    overview,
    documents,
    cases,
    review,
    checks,
    jobs,
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
"""In menu order; each module has a PAGE and a router."""

MENU = tuple(module.PAGE for module in PAGES)

ROUTERS = (
    *(module.router for module in PAGES if module is not review),
    review.queue_router,
    review.router,
    documents.document_router,
    documents.images_router,
    documents.upload_router,
    dead_letters.transcription_router,
    dead_letters.dead_letter_router,
    cases.case_router,
    checks.picture_router,
    checks.job_router,
    volumes_page.router,
    volume.files_router,
    volume.router,
    job.router,
)
"""Routers for all pages and their subpages."""

_STATIC = {path.name: path for path in (Path(__file__).parent / "static").iterdir()}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

_router = APIRouter(route_class=route.Route, include_in_schema=False)


def make_router() -> APIRouter:
    """Create the router; app.state needs `services` and `menu` before the first request."""
    router = APIRouter()
    router.include_router(_router)
    router.include_router(login.router)
    for page_router in ROUTERS:
        router.include_router(page_router)
    return router


@_router.get("/")
async def redirect_to_first_page(user: sessions.SignedIn) -> Response:
    """Redirect to the first page of the menu that the user may see."""
    first = next(page for page in MENU if page.is_visible_to(is_admin=user.is_admin))
    return RedirectResponse(first.path, 303)


@_router.get("/static/vendor/{name}")
async def serve_third_party_file(name: str) -> Response:
    """Serve a script of a third party."""
    return _revalidate(rendering.serve_vendor_file(name))


@_router.get("/static/{name}")
async def serve_static_file(name: str, request: Request) -> Response:
    """Serve one of our own style sheets, scripts or icons."""
    path = _STATIC.get(name)
    if path is None:
        raise HTTPException(404, f"{request.url.path} does not exist")
    return _revalidate(FileResponse(path, media_type=_TYPES[path.suffix]))


def _revalidate(response: Response) -> Response:
    # Browsers load a new version immediately.
    response.headers["Cache-Control"] = "no-cache"
    return response
