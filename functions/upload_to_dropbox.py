"""`upload-to-dropbox`: receive one file, or sign an address for it and confirm its upload."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.documents import upload as uploads
from pagewarden.functions.http import authentication, errors
from pagewarden.web import request_body, upload_form

NAME = "upload-to-dropbox"

router = APIRouter(prefix=f"/{NAME}", tags=[NAME], dependencies=authentication.require_access(NAME))

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "case_id": {"type": "string", "format": "uuid"},
                        "language": {"type": "string"},
                        "engine": {"type": "string"},
                        "profile": {"type": "string"},
                        "callback_url": {"type": "string", "format": "uri"},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            },
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class UploadLimits(BaseModel):
    """How large a file may be."""

    max_bytes: int = Field(description="Maximum size of a file.")
    max_direct_bytes: int = Field(
        description="Maximum size of a file in one request; larger ones need an upload address."
    )


class SignedUpload(BaseModel):
    """Where to upload the file: send it as the body of this request, then confirm the upload."""

    upload_id: uuid.UUID
    url: str = Field(description="The upload address; it needs no token or key.")
    method: str
    headers: dict[str, str] = Field(description="Headers that the request must have.")
    expires_at: datetime = Field(description="When the address becomes invalid.")
    confirm_url: str
    confirm_before: datetime = Field(description="When the uploaded file is removed.")


class Accepted(BaseModel):
    """The document created for the file."""

    document_id: uuid.UUID
    case_id: uuid.UUID
    name: str
    document_version: int = Field(description="Version of the document with this name in the case.")
    ocr_status: str
    existing: bool = Field(
        description="Whether the case already had the same file under this name."
    )
    status_url: str = Field(description="URL of the document's status.")


@router.post(
    "",
    status_code=202,
    openapi_extra=_BODY,
    responses=errors.error_responses(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503, 507),
)
async def upload(
    request: Request, response: Response, caller: authentication.Caller, services: services.Current
) -> Accepted:
    """Upload one file; its fields precede it in the form, or are in the query.

    Without case_id the document is added to your inbox. A file of unknown type stays pending until
    HAC, the people with the role admin, route it.
    """
    document = await services.uploader.upload_document(
        await request_body.receive_file(request),
        authentication.database_for(caller, services),
        is_service=caller.is_service,
    )
    return _accept(document, request, response, services)


_signed_router = APIRouter(route_class=request_body.BodyLimitRoute)


@router.get("", responses=errors.error_responses(401, 429, 503))
async def limits(services: services.Current) -> UploadLimits:
    """Return how large a file may be, and from which size on it needs an upload address."""
    return UploadLimits(
        max_bytes=services.settings.upload_max_bytes,
        max_direct_bytes=services.uploader.max_direct_bytes,
    )


@_signed_router.post(
    "/sign",
    status_code=201,
    responses=errors.error_responses(400, 401, 403, 404, 408, 413, 422, 429, 503),
)
async def sign(
    requested: upload_form.RequestedUpload,
    request: Request,
    caller: authentication.Caller,
    services: services.Current,
) -> SignedUpload:
    """Return an address for one file, of any size up to the maximum.

    Upload the file there within an hour, then confirm the upload within a day.
    """
    signed = await services.pending_uploads.request(
        requested, authentication.database_for(caller, services), is_service=caller.is_service
    )
    return SignedUpload(
        upload_id=uuid.UUID(signed.upload_id),
        url=services.absolute_url(request, signed.address.url),
        method=signed.address.method,
        headers=dict(signed.address.headers),
        expires_at=signed.expires_at,
        confirm_url=services.public_url(request, "confirm_upload", upload_id=signed.upload_id),
        confirm_before=signed.confirm_before,
    )


@_signed_router.post(
    "/{upload_id}/confirm",
    name="confirm_upload",
    status_code=202,
    responses=errors.error_responses(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
)
async def confirm(
    upload_id: uuid.UUID,
    request: Request,
    response: Response,
    caller: authentication.Caller,
    services: services.Current,
) -> Accepted:
    """Check an uploaded file and create its document; repeated calls return the same document."""
    document = await services.pending_uploads.confirm(
        str(upload_id), authentication.database_for(caller, services)
    )
    return _accept(document, request, response, services)


def _accept(
    document: uploads.UploadedDocument,
    request: Request,
    response: Response,
    services: services.Services,
) -> Accepted:
    status_url = services.public_url(request, "document_status", document_id=document.document_id)
    response.headers["Location"] = status_url
    return Accepted.model_validate({**dataclasses.asdict(document), "status_url": status_url})


router.include_router(_signed_router)
