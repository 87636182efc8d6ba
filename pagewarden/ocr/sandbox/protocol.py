"""Messages between host and child: frames of JSON, with raw bytes such as the pixels of a page.

The host does not trust a child: it checks the size and the content of every message.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pydantic

from pagewarden import errors
from pagewarden.ocr import pages

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Mapping

Message = dict[str, Any]

MAX_JSON = 1 << 20
MAX_PAGE = 32 << 20

_HEADER = struct.Struct("!QQ")
_PAGE = pydantic.TypeAdapter(pages.ReadPage)
_NULLS_OF_A_PAGE = 1  # `error` of a page that was read


class ProtocolError(Exception):
    """The child has exited, or sent an invalid message."""


class ChildConnection:
    """The end of the child; it trusts the host."""

    def __init__(self, end: socket.socket) -> None:
        self._file = end.makefile("rwb")

    def send(self, message: Mapping[str, Any], blob: memoryview | bytes = b"") -> None:
        """Send a message with bytes."""
        text = json.dumps(message).encode()
        self._file.write(_HEADER.pack(len(text), len(blob)))
        self._file.write(text)
        self._file.write(blob)
        self._file.flush()

    def receive(self) -> tuple[Message, bytes] | None:
        """Wait for a message with bytes; None if the host has closed the connection."""
        header = self._file.read(_HEADER.size)
        if not header:
            return None
        length, blob_length = _HEADER.unpack(header)
        message: Message = json.loads(self._file.read(length))
        return message, self._file.read(blob_length)


async def send(writer: asyncio.StreamWriter, message: Mapping[str, Any], blob: bytes = b"") -> None:
    """Send a message with bytes to a child."""
    text = json.dumps(message).encode()
    try:
        writer.write(_HEADER.pack(len(text), len(blob)))
        writer.write(text)
        writer.write(blob)
        await writer.drain()
    except OSError as exc:
        raise ProtocolError(str(exc)) from exc


async def receive(reader: asyncio.StreamReader, *, max_blob: int) -> tuple[Message, bytes]:
    """Wait for a message with bytes from a child, of at most max_blob bytes."""
    try:
        length, blob_length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        if length > MAX_JSON or blob_length > max_blob:
            raise ProtocolError("the message is too long")
        message = json.loads(await reader.readexactly(length))
        blob = await reader.readexactly(blob_length)
    except (OSError, EOFError, ValueError, RecursionError) as exc:
        raise ProtocolError(str(exc)) from exc
    if not isinstance(message, dict):
        raise ProtocolError("the message is not a JSON object")
    return message, blob


def pack_page(page: pages.ReadPage) -> bytes:
    """Serialise a page; refuses a page that `unpack_page` could not read."""
    packed = _PAGE.dump_json(page)
    if len(packed) > MAX_PAGE:
        raise errors.DocumentTooLarge("The page has too much text. Review it manually.")
    # NaN and infinity become null. Validating only pages with a null saves a tenth of the time
    # that reading a text layer takes.
    if packed.count(b"null") > _NULLS_OF_A_PAGE:
        _require_valid(packed)
    return packed


def _require_valid(data: bytes) -> None:
    try:
        _PAGE.validate_json(data)
    except ValueError as exc:
        raise errors.ReadingError(
            "The engine returned invalid numbers. Try another engine."
        ) from exc


def unpack_page(data: bytes) -> pages.ReadPage:
    """Deserialise a page."""
    try:
        return _PAGE.validate_json(data)
    except ValueError as exc:
        raise ProtocolError("not a valid page") from exc


def unpack_count(message: Message) -> int:
    """Return the number of pages that a child has found."""
    count = message.get("page_count")
    if not isinstance(count, int) or count < 0:
        raise ProtocolError("not a valid number of pages")
    return count


def pack_error(error: Exception) -> list[str]:
    """Serialise an error."""
    if isinstance(error, errors.PagewardenError):
        return [type(error).__name__, str(error)]
    detail = f"{type(error).__name__}: {error}".rstrip(": ")
    return [errors.ReadingError.__name__, f"unexpected error ({detail}). Please report it."]


def unpack_error(data: Any) -> errors.PagewardenError:  # noqa: ANN401  # JSON
    """Deserialise an error of a child."""
    try:
        name, message = data
        error = getattr(errors, name)(message)
    except (AttributeError, TypeError, ValueError) as exc:
        raise ProtocolError("the child returned an unknown error") from exc
    if not isinstance(error, errors.PagewardenError) or not isinstance(message, str):
        raise ProtocolError("the child returned an unknown error")
    return error
