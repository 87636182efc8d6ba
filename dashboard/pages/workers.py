"""Workers: who is alive, and what each is reading."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from dashboard import navigation, rendering, route, visitors

PAGE = navigation.Page("Workers", "/workers", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)


@router.get("")
async def listed(request: Request, visitor: visitors.Admin) -> Response:
    """Show the workers; the page asks for the list again and again."""
    part = request.headers.get("HX-Target") == "workers"
    rows = await visitor.database.list_workers()
    return rendering.page(request, "workers.html", part=part, rows=rows)
