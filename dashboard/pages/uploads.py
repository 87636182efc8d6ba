"""Uploads: files dropped on the list of documents, and how far each of them is."""

from __future__ import annotations

import uuid

from fastapi import APIRouter, Request, Response

from dashboard import forgery, parts, rendering, route, visitors
from dashboard.pages import document, documents

router = APIRouter(prefix=documents.PAGE.path, include_in_schema=False)

_WAITS_FOR_A_WORKER = {"awaiting_file", "extracting", "queued", "queued_for_pdf", "processing"}


async def upload(
    request: Request, visitor: visitors.Signed, used: parts.Used, _uploading: forgery.Uploading
) -> Response:
    """Take in one file, and show what has become of it."""
    accepted = await used.take_in(request, visitor.database)
    return await _shown(request, visitor, accepted.document_id, existing=accepted.existing)


async def progress(request: Request, visitor: visitors.Signed, document_id: uuid.UUID) -> Response:
    """Show how far a document is."""
    await document.find(visitor, document_id)
    return await _shown(request, visitor, document_id, existing=False)


router.add_api_route("", upload, methods=["POST"], route_class_override=route.Taking)
router.add_api_route("/{document_id}/progress", progress, route_class_override=route.Route)


async def _shown(
    request: Request, visitor: visitors.Visitor, document_id: uuid.UUID, *, existing: bool
) -> Response:
    seen = await visitor.database.document_progress(document_id=str(document_id))
    is_open = seen["ocr_status"] in _WAITS_FOR_A_WORKER
    return rendering.page(request, "upload.html", seen=seen, existing=existing, is_open=is_open)
