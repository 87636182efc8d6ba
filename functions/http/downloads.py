"""Downloads by signed URL: files of the store, and page images."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from pagewarden import services
from pagewarden.errors import FileNotFound, Forbidden
from pagewarden.functions.http import errors
from pagewarden.ocr import page_image
from pagewarden.storage import signed_urls

Expires = Annotated[str, Query(max_length=12)]
Signature = Annotated[str, Query(max_length=128)]

router = APIRouter(prefix=signed_urls.FILES_PREFIX, tags=["files"])
page_images_router = APIRouter(prefix=signed_urls.PAGE_IMAGES_PREFIX, include_in_schema=False)


@router.get(
    "/{path:path}",
    response_class=StreamingResponse,
    responses=errors.error_responses(400, 403, 404, 503)
    | {200: {"content": {"application/octet-stream": {}}, "description": "The bytes of the file."}},
)
async def download(
    path: str, services: services.Current, expires: Expires, signature: Signature
) -> StreamingResponse:
    """Download a file while its URL is valid."""
    signers = (
        signed_urls.make_store_signer(services.settings),
        signed_urls.make_file_signer(services.keys.secret_key),
    )
    if not any(signer and signer.verify(path, expires, signature) for signer in signers):
        raise Forbidden("the URL is invalid or expired; request a new one")
    stored = await services.store.stat(path)
    if stored is None:
        raise FileNotFound(f"{path} no longer exists")
    return StreamingResponse(
        services.store.read(path),
        media_type="application/octet-stream",
        headers={
            "Content-Length": str(stored.size),
            "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
        },
    )


@page_images_router.get("/{path:path}/{number}")
async def page_image_of_file(
    path: str, number: int, services: services.Current, expires: Expires, signature: Signature
) -> Response:
    """Return the image of a page while its URL is valid."""
    signer = signed_urls.make_page_image_signer(services.keys.secret_key)
    if not signer.verify(f"{path}/{number}", expires, signature):
        raise Forbidden("the link is invalid or expired; open the page again")
    return Response(
        await services.page_images.get(path, number),
        media_type=page_image.MEDIA_TYPE,
        headers={
            "Cache-Control": "private, max-age=300",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        },
    )
