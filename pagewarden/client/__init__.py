"""Client library of a Pagewarden server: sign in, upload, search, wait, download text.

Begin with `open_client`. `auth` stores sessions and finds credentials, `http` makes the calls.
Nothing here opens a database or runs OCR.
"""

from __future__ import annotations

from pagewarden.client.auth import Session, SessionStore
from pagewarden.client.client import (
    Client,
    SearchQuery,
    UploadOptions,
    open_client,
    open_connection,
    translate_file_errors,
    wait_until_finished,
)
from pagewarden.client.http import DocumentState, Progress, SearchHit, UploadedDocument

__all__ = [
    "Client",
    "DocumentState",
    "Progress",
    "SearchHit",
    "SearchQuery",
    "Session",
    "SessionStore",
    "UploadOptions",
    "UploadedDocument",
    "open_client",
    "open_connection",
    "translate_file_errors",
    "wait_until_finished",
]
