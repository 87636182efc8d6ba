"""Workers: their state, and the documents they hold."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from pagewarden.dashboard import rendering, route, sessions

PAGE = route.Page("Workers", "/workers", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)


@router.get("")
async def show_list(request: Request, user: sessions.Admin) -> Response:
    """Show the workers; htmx reloads the list."""
    is_fragment = request.headers.get("HX-Target") == "workers"
    rows = await user.database.list_workers()
    return rendering.render_page(request, "workers.html", is_fragment=is_fragment, rows=rows)
