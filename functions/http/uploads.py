"""Uploads to a signed URL of this server, in the form of Supabase Storage."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.errors import FileTooLarge, Forbidden, RequestRejected
from pagewarden.functions.http import errors
from pagewarden.storage import base, upload_tokens
from pagewarden.web import request_body

router = APIRouter(prefix=upload_tokens.UPLOADS_PREFIX, tags=["files"])

_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class StoredObject(BaseModel):
    """The file that was stored."""

    key: str = Field(alias="Key", description="Its bucket and path.")


@router.put(
    "/{bucket}/{path:path}",
    openapi_extra=_BODY,
    responses=errors.error_responses(400, 403, 408, 409, 422, 503, 507),
)
async def upload(
    bucket: str,
    path: str,
    token: Annotated[str, Query(max_length=2048)],
    request: Request,
    services: services.Current,
) -> StoredObject:
    """Upload one file with the token of its address; send it as the body or in a form."""
    target = f"{bucket}/{path}"
    grant = upload_tokens.UploadSigner(services.keys.secret_key).verify(target, token)
    if grant is None:
        raise Forbidden("the upload address is invalid or expired; request a new one")
    mismatch = RequestRejected(
        "UPLOAD_MISMATCH",
        f"the file is not the announced one of {grant.size} bytes and SHA-256 {grant.sha256}; "
        "nothing was stored",
    )
    try:
        stored = await services.store.write(
            target, request_body.receive_content(request), limit=grant.size
        )
    except FileTooLarge as exc:
        raise mismatch from exc
    if stored.sha256 != grant.sha256:
        await base.delete_files(services.store, [target])
        raise mismatch
    return StoredObject(Key=target)
