"""Files of a folder on disk, for whoever has a signed URL; see pagewarden.files.signing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from functions import answers, services
from pagewarden import errors, keys
from pagewarden.files import signing

PREFIX = "/files/v1"

router = APIRouter(prefix=PREFIX, tags=["files"])


def make_signer(known: keys.Keys) -> signing.Signer:
    """Make what signs links for people; those of the settings are for our other services."""
    return signing.Signer(PREFIX, known.secret_key)


@router.get(
    "/{path:path}",
    response_class=StreamingResponse,
    responses=answers.documented(400, 403, 404, 503)
    | {200: {"content": {"application/octet-stream": {}}, "description": "The bytes of the file."}},
)
async def download(
    path: str,
    used: services.Used,
    expires: Annotated[str, Query(max_length=12)],
    signature: Annotated[str, Query(max_length=128)],
) -> StreamingResponse:
    """Hand out one file, as long as its URL counts."""
    signers = (signing.open_signer(used.settings), make_signer(used.keys))
    if not any(signer and signer.verify(path, expires, signature) for signer in signers):
        raise errors.Forbidden("this URL does not count, or no longer; ask for a new one")
    found = await used.store.stat(path)
    if found is None:
        raise errors.FileNotThere(f"{path} is not there any more")
    return StreamingResponse(
        used.store.read(path),
        media_type="application/octet-stream",
        headers={
            "Content-Length": str(found.size),
            "Content-Disposition": "attachment",
            "X-Content-Type-Options": "nosniff",
        },
    )
