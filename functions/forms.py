"""Forms that are parsed while they arrive, and bodies that must not fall silent."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import TYPE_CHECKING, Any

import python_multipart
from python_multipart.exceptions import FormParserError

from functions import answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fastapi import Request

IDLE_SECONDS = 30.0
MAX_FIELD_BYTES = 65_536
MAX_FIELDS = 32
# Whatever a form has besides its files: fields, headers, what is before and behind.
MAX_ASIDE_BYTES = MAX_FIELDS * MAX_FIELD_BYTES


def boundary(request: Request) -> bytes | None:
    """Find what separates the parts of a form; None when the request is none."""
    kind, options = python_multipart.multipart.parse_options_header(
        request.headers.get("content-type")
    )
    return options.get(b"boundary", b"") if kind == b"multipart/form-data" else None


async def body(request: Request) -> AsyncIterator[bytes]:
    """Read the body; a client that falls silent in the middle is not waited for."""
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                chunk = await anext(stream, None)
        except TimeoutError as exc:
            raise answers.RefusedError(
                408, "TOO_SLOW", f"nothing came for {IDLE_SECONDS:g} seconds; send it again"
            ) from exc
        if chunk is None:
            return
        if chunk:
            yield chunk


@contextlib.contextmanager
def _refusing_broken_forms() -> Iterator[None]:
    try:
        yield
    except FormParserError as exc:
        raise answers.RefusedError(400, "INVALID_REQUEST", f"broken form: {exc}") from exc


class Form:
    """A form that is parsed while it arrives.

    Events are ("part", (field, file name or None)), ("data", bytes) and ("end", None).
    """

    def __init__(self, body: AsyncIterator[bytes], boundary: bytes) -> None:
        if not boundary:
            raise answers.RefusedError(400, "INVALID_REQUEST", "the form has no boundary")
        self._body = body
        self._aside = 0
        self._pending: deque[tuple[str, Any]] = deque()
        self._header = b""
        self._value = b""
        self._disposition = b""
        self._ended = False
        with _refusing_broken_forms():
            self._parser = python_multipart.MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": self._header_comes,
                    "on_header_value": self._value_comes,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data_comes,
                    "on_part_end": lambda: self._pending.append(("end", None)),
                    "on_end": self._form_ends,
                },
            )

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Go on where the last reader of events stopped."""
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self._aside > MAX_ASIDE_BYTES:
                raise answers.RefusedError(
                    400, "INVALID_REQUEST", "the form has too much besides its file"
                )
            chunk = await anext(self._body, None)
            if chunk is None:
                self._require_end()
                return
            self._aside += len(chunk)
            with _refusing_broken_forms():
                self._parser.write(chunk)

    async def text(self) -> str:
        """Read the rest of a part that is a plain field."""
        found = bytearray()
        async for event, value in self.events():
            if event == "end":
                break
            found += value
            if len(found) > MAX_FIELD_BYTES:
                raise answers.RefusedError(400, "INVALID_REQUEST", "a field is too long")
        try:
            return found.decode()
        except UnicodeDecodeError as exc:
            raise answers.RefusedError(400, "INVALID_REQUEST", "a field is not UTF-8") from exc

    async def part(self) -> AsyncIterator[bytes]:
        """Read the rest of a part that is a file."""
        async for event, value in self.events():
            if event == "end":
                return
            self._aside -= len(value)
            yield value

    async def last_part(self) -> AsyncIterator[bytes]:
        """Read the rest of a part, and see that the form ends with it."""
        async for event, value in self.events():
            if event == "data":
                self._aside -= len(value)
                yield value
            elif event == "part":
                raise answers.RefusedError(
                    400, "INVALID_REQUEST", "send one file in a form, and send it last"
                )

    def _require_end(self) -> None:
        if not self._ended:
            raise answers.RefusedError(400, "INVALID_REQUEST", "the form breaks off in the middle")

    def _part_begins(self) -> None:
        self._disposition = b""

    def _header_comes(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _value_comes(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_end(self) -> None:
        header = Message()
        header["content-disposition"] = self._disposition.decode(errors="replace")
        try:
            field = collapse_rfc2231_value(header.get_param("name", "", "content-disposition"))
            part = field, header.get_filename()
        except ValueError as exc:  # there are strange encodings
            raise answers.RefusedError(
                400, "INVALID_REQUEST", "the name of a field or file cannot be read; send UTF-8"
            ) from exc
        self._pending.append(("part", part))

    def _data_comes(self, data: bytes, start: int, end: int) -> None:
        self._pending.append(("data", data[start:end]))

    def _form_ends(self) -> None:
        self._ended = True
