"""A file on its way in: read from the request piece by piece, never held in memory or on disk."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from functions import answers, forms
from pagewarden import files
from pagewarden.reading import formats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

NAME_HEADER = "x-file-name"


@dataclass(slots=True)
class Incoming:
    """What came before the file's bytes, and the bytes.

    While chunks is read, head keeps the first of them, by which the type is told.
    """

    fields: dict[str, str]
    name: str
    chunks: AsyncIterator[bytes]
    head: bytes = b""

    async def kept_head(self) -> AsyncIterator[bytes]:
        """Hand the bytes on, and keep the first ones."""
        async for chunk in self.chunks:
            if len(self.head) < formats.HEAD_BYTES:
                self.head += chunk[: formats.HEAD_BYTES - len(self.head)]
            yield chunk


async def receive(request: Request) -> Incoming:
    """Read a request up to the bytes of its file.

    The file is a part of a form, after all fields, or the whole body with its name in the
    header X-File-Name (percent-encoded) and its fields in the query.
    """
    fields = dict(request.query_params)
    boundary = forms.boundary(request)
    if boundary is None:
        name = urllib.parse.unquote(request.headers.get(NAME_HEADER, ""))
        return Incoming(fields, _require_name(fields.pop("name", name)), forms.body(request))
    return await _from_form(forms.Form(forms.body(request), boundary), fields)


async def _from_form(form: forms.Form, fields: dict[str, str]) -> Incoming:
    async for event, value in form.events():
        if event != "part":
            continue
        field, file_name = value
        if file_name is not None:
            return Incoming(fields, _require_name(file_name), form.last_part())
        if len(fields) >= forms.MAX_FIELDS:
            raise answers.RefusedError(400, "INVALID_REQUEST", "the form has too many fields")
        fields[field] = await form.text()
    raise answers.RefusedError(400, "NO_FILE", 'there is no file; send it as the field "file"')


def _require_name(name: str) -> str:
    """Make a name of what the client says, which must be something."""
    if not name.strip():
        raise answers.RefusedError(
            400, "NO_NAME", "the file has no name; send one, in a form or in X-File-Name"
        )
    return files.safe_name(name)
