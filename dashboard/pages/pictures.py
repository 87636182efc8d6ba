"""What is looked at: pictures of pages, and originals. Both are behind links that soon end."""

from __future__ import annotations

import uuid

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from dashboard import parts, route, visitors
from dashboard.pages import documents
from pagewarden.database import tables

router = APIRouter(prefix=documents.PAGE.path, route_class=route.Route, include_in_schema=False)


@router.get("/{document_id}/pages/{number}/picture")
async def picture(
    visitor: visitors.Signed, used: parts.Used, document_id: uuid.UUID, number: int
) -> Response:
    """Lead to the picture of a page."""
    return RedirectResponse(used.links.picture(await path_of(visitor, document_id), number), 303)


@router.get("/{document_id}/file")
async def file(visitor: visitors.Signed, used: parts.Used, document_id: uuid.UUID) -> Response:
    """Lead to the original."""
    return RedirectResponse(await used.links.file(await path_of(visitor, document_id)), 303)


async def path_of(visitor: visitors.Visitor, document_id: uuid.UUID) -> str:
    """Find where the file of a document is, if this person may see it."""
    rows = await visitor.database.select(
        tables.documents, columns="dropbox_path", where={"id": str(document_id)}
    )
    if not rows:
        raise HTTPException(404, "there is no such document, or not for you")
    path: str | None = rows[0]["dropbox_path"]
    if not path:
        raise HTTPException(404, "its file has not come yet")
    return path.removeprefix("/")
