"""Bounded request bodies, streamed multipart forms, and one uploaded file.

Bodies are read before the sender is known, so all of them are limited in size and time.
"""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections import deque
from dataclasses import dataclass
from email.message import Message as EmailMessage
from email.utils import collapse_rfc2231_value
from typing import TYPE_CHECKING, Any

import python_multipart
from fastapi import Request, Response, routing
from python_multipart.exceptions import FormParserError
from starlette.exceptions import HTTPException

from pagewarden import storage
from pagewarden.errors import RequestRejected
from pagewarden.ocr import file_types

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from starlette.types import Message, Receive

# Of bodies that are held in memory.
MAX_BYTES = 16_384
SECONDS = 10.0

# Of bodies that are streamed.
IDLE_SECONDS = 30.0
MAX_FIELD_BYTES = 65_536
MAX_FIELDS = 32
# Everything in a form except its files: fields, headers, preamble and epilogue.
MAX_OVERHEAD_BYTES = MAX_FIELDS * MAX_FIELD_BYTES

NAME_HEADER = "x-file-name"


class BodyLimitRoute(routing.APIRoute):
    """A route whose request body is limited; subclasses set other limits."""

    max_bytes = MAX_BYTES
    seconds: float | None = None

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler, so that it reads a limited body."""
        handle = super().get_route_handler()

        async def handle_limited(request: Request) -> Response:
            receive = _limit(request.receive, self.max_bytes, self.seconds or SECONDS)
            return await handle(Request(request.scope, receive))

        return handle_limited


def _limit(receive: Receive, max_bytes: int, seconds: float) -> Receive:
    deadline = asyncio.get_running_loop().time() + seconds
    left = max_bytes

    async def receive_limited() -> Message:
        nonlocal left
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as exc:
            raise HTTPException(408, "the request took too long to arrive") from exc
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413, f"a request may not exceed {max_bytes} bytes")
        return message

    return receive_limited


def get_form_boundary(request: Request) -> bytes | None:
    """Return the boundary of a multipart form, or None if the request is not a form."""
    kind, options = python_multipart.multipart.parse_options_header(
        request.headers.get("content-type")
    )
    return options.get(b"boundary", b"") if kind == b"multipart/form-data" else None


async def stream_body(request: Request) -> AsyncIterator[bytes]:
    """Yield the body in chunks; refuse a client that sends nothing for a while."""
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                chunk = await anext(stream, None)
        except TimeoutError as exc:
            raise RequestRejected(
                "TOO_SLOW",
                f"no data was received for {IDLE_SECONDS:g} seconds; send the request again",
            ) from exc
        if chunk is None:
            return
        if chunk:
            yield chunk


@contextlib.contextmanager
def _translate_parser_errors() -> Iterator[None]:
    try:
        yield
    except FormParserError as exc:
        raise RequestRejected("INVALID_REQUEST", f"the form is malformed: {exc}") from exc


class MultipartForm:
    """A multipart form that is parsed while it arrives.

    Events are ("part", (field, file name or None)), ("data", bytes) and ("end", None).
    """

    def __init__(self, body: AsyncIterator[bytes], boundary: bytes) -> None:
        if not boundary:
            raise RequestRejected("INVALID_REQUEST", "the form has no boundary")
        self._body = body
        self._overhead = 0
        self._pending: deque[tuple[str, Any]] = deque()
        self._header = b""
        self._value = b""
        self._disposition = b""
        self._is_complete = False
        with _translate_parser_errors():
            self._parser = python_multipart.MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": lambda: self._pending.append(("end", None)),
                    "on_end": self._on_form_end,
                },
            )

    async def iterate_events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield the next events, after those that earlier iterations have yielded."""
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self._overhead > MAX_OVERHEAD_BYTES:
                raise RequestRejected(
                    "INVALID_REQUEST", "the form has too much data outside its files"
                )
            chunk = await anext(self._body, None)
            if chunk is None:
                if not self._is_complete:
                    raise RequestRejected("INVALID_REQUEST", "the form is incomplete")
                return
            self._overhead += len(chunk)
            with _translate_parser_errors():
                self._parser.write(chunk)

    async def read_text(self) -> str:
        """Read the rest of a part that is a plain field."""
        value = bytearray()
        async for event, data in self.iterate_events():
            if event == "end":
                break
            value += data
            if len(value) > MAX_FIELD_BYTES:
                raise RequestRejected("INVALID_REQUEST", "a field is too long")
        try:
            return value.decode()
        except UnicodeDecodeError as exc:
            raise RequestRejected("INVALID_REQUEST", "a field is not UTF-8") from exc

    async def read_file(self) -> AsyncIterator[bytes]:
        """Yield the rest of a part that is a file."""
        async for event, data in self.iterate_events():
            if event == "end":
                return
            self._overhead -= len(data)
            yield data

    async def read_last_file(self) -> AsyncIterator[bytes]:
        """Yield the rest of a part that is a file; refuse a form that has further parts."""
        async for event, data in self.iterate_events():
            if event == "data":
                self._overhead -= len(data)
                yield data
            elif event == "part":
                raise RequestRejected(
                    "INVALID_REQUEST", "send one file per form, after all other fields"
                )

    def _on_part_begin(self) -> None:
        self._disposition = b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _on_headers_finished(self) -> None:
        header = EmailMessage()
        header["content-disposition"] = self._disposition.decode(errors="replace")
        try:
            field = collapse_rfc2231_value(header.get_param("name", "", "content-disposition"))
            part = field, header.get_filename()
        except ValueError as exc:  # unknown encodings
            raise RequestRejected(
                "INVALID_REQUEST", "the name of a field or file cannot be decoded; send UTF-8"
            ) from exc
        self._pending.append(("part", part))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._pending.append(("data", data[start:end]))

    def _on_form_end(self) -> None:
        self._is_complete = True


@dataclass(slots=True)
class IncomingFile:
    """A file that is being uploaded, with the fields that came before it.

    `head` has its first bytes, by which its type is detected, once they have been read.
    """

    fields: dict[str, str]
    name: str
    chunks: AsyncIterator[bytes]
    head: bytes = b""

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the content once, and set `head` on the way."""
        async for chunk in self.chunks:
            if len(self.head) < file_types.HEAD_BYTES:
                self.head += chunk[: file_types.HEAD_BYTES - len(self.head)]
            yield chunk


async def receive_file(request: Request) -> IncomingFile:
    """Read a request up to the content of its file.

    The file is the last part of a form, or the whole body with its name in the header
    X-File-Name (percent-encoded) and its fields in the query.
    """
    fields = dict(request.query_params)
    boundary = get_form_boundary(request)
    if boundary is None:
        name = urllib.parse.unquote(request.headers.get(NAME_HEADER, ""))
        return IncomingFile(fields, _make_safe_name(fields.pop("name", name)), stream_body(request))
    form = MultipartForm(stream_body(request), boundary)
    async for event, value in form.iterate_events():
        if event != "part":
            continue
        field, file_name = value
        if file_name is not None:
            return IncomingFile(fields, _make_safe_name(file_name), form.read_last_file())
        if len(fields) >= MAX_FIELDS:
            raise RequestRejected("INVALID_REQUEST", "the form has too many fields")
        fields[field] = await form.read_text()
    raise RequestRejected("NO_FILE", 'the request has no file; send it in the field "file"')


async def receive_content(request: Request) -> AsyncIterator[bytes]:
    """Yield the content of the first file of a form, or the whole body of another request."""
    boundary = get_form_boundary(request)
    if boundary is None:
        async for chunk in stream_body(request):
            yield chunk
        return
    form = MultipartForm(stream_body(request), boundary)
    async for event, value in form.iterate_events():
        if event == "part" and value[1] is not None:
            async for chunk in form.read_last_file():
                yield chunk
            return
    raise RequestRejected("NO_FILE", "the form has no file")


def _make_safe_name(name: str) -> str:
    if not name.strip():
        raise RequestRejected(
            "NO_NAME", "the file has no name; send it in the form or in X-File-Name"
        )
    return storage.make_safe_name(name)
