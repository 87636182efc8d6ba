"""`upload-to-dropbox`: receive one file and upload it."""

from __future__ import annotations

import dataclasses
import uuid

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from pagewarden import services
from pagewarden.functions.http import authentication, errors
from pagewarden.web import request_body

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
    status_url = services.public_url(request, "document_status", document_id=document.document_id)
    response.headers["Location"] = status_url
    return Accepted.model_validate({**dataclasses.asdict(document), "status_url": status_url})
