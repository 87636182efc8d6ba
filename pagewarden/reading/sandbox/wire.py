"""How the processes talk: frames of JSON and, beside it, bytes such as the pixels of a page.

The host believes nothing: what a child says is checked, and never larger than expected.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pydantic

from pagewarden import errors
from pagewarden.reading import pages

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Mapping

Message = dict[str, Any]

MAX_JSON = 1 << 20
MAX_PAGE = 32 << 20

_HEADER = struct.Struct("!QQ")
_PAGE = pydantic.TypeAdapter(pages.ReadPage)
_NULLS_OF_A_PAGE = 1  # that there was no error


class Broken(Exception):
    """The child is gone, or says what nobody can understand."""


class Line:
    """The child's end; the host is trusted."""

    def __init__(self, end: socket.socket) -> None:
        self._file = end.makefile("rwb")

    def send(self, message: Mapping[str, Any], blob: memoryview | bytes = b"") -> None:
        """Send a message and the bytes beside it."""
        text = json.dumps(message).encode()
        self._file.write(_HEADER.pack(len(text), len(blob)))
        self._file.write(text)
        self._file.write(blob)
        self._file.flush()

    def receive(self) -> Message | None:
        """Wait for a message; None when the host has nothing more to say."""
        received = self.receive_both()
        return received[0] if received else None

    def receive_both(self) -> tuple[Message, bytes] | None:
        """Wait for a message and the bytes beside it."""
        header = self._file.read(_HEADER.size)
        if not header:
            return None
        length, blob_length = _HEADER.unpack(header)
        message: Message = json.loads(self._file.read(length))
        return message, self._file.read(blob_length)


async def send(writer: asyncio.StreamWriter, message: Mapping[str, Any], blob: bytes = b"") -> None:
    """Send a message to a child, and the bytes beside it."""
    text = json.dumps(message).encode()
    try:
        writer.write(_HEADER.pack(len(text), len(blob)))
        writer.write(text)
        writer.write(blob)
        await writer.drain()
    except OSError as exc:
        raise Broken(str(exc)) from exc


async def receive(reader: asyncio.StreamReader, *, max_blob: int) -> tuple[Message, bytes]:
    """Wait for a child's message and the bytes beside it."""
    try:
        length, blob_length = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        if length > MAX_JSON or blob_length > max_blob:
            raise Broken("a message of absurd length")
        message = json.loads(await reader.readexactly(length))
        blob = await reader.readexactly(blob_length)
    except (OSError, EOFError, ValueError, RecursionError) as exc:
        raise Broken(str(exc)) from exc
    if not isinstance(message, dict):
        raise Broken("a message that is no object")
    return message, blob


def pack_page(page: pages.ReadPage) -> bytes:
    """Give a page the form it travels in; refuses what nobody could unpack."""
    packed = _PAGE.dump_json(page)
    if len(packed) > MAX_PAGE:
        raise errors.TooLarge("There is more text on it than a page can hold. Look at it yourself.")
    # What is no number travels as null; unpacking each page here, only to see, takes a tenth of
    # the time that a text layer does.
    if packed.count(b"null") > _NULLS_OF_A_PAGE:
        _require_sound(packed)
    return packed


def _require_sound(packed: bytes) -> None:
    try:
        _PAGE.validate_json(packed)
    except ValueError as exc:
        raise errors.ReadingError("The engine gave no numbers. Try another engine.") from exc


def unpack_page(packed: bytes) -> pages.ReadPage:
    """Make the page again."""
    try:
        return _PAGE.validate_json(packed)
    except ValueError as exc:
        raise Broken("a page that is none") from exc


def unpack_count(message: Message) -> int:
    """Find how many pages there are."""
    count = message.get("opened")
    if not isinstance(count, int) or count < 0:
        raise Broken("no number of pages")
    return count


def pack_error(error: Exception) -> list[str]:
    """Give an error the form it travels in."""
    if isinstance(error, errors.PagewardenError):
        return [type(error).__name__, str(error)]
    unforeseen = f"{type(error).__name__}: {error}".rstrip(": ")
    return [errors.ReadingError.__name__, f"an unforeseen error ({unforeseen}). Please report it."]


def unpack_error(packed: Any) -> errors.PagewardenError:  # noqa: ANN401  # JSON
    """Make the error that a child met with."""
    try:
        name, message = packed
        made = getattr(errors, name)(message)
    except (AttributeError, TypeError, ValueError) as exc:
        raise Broken("an error of no known kind") from exc
    if not isinstance(made, errors.PagewardenError) or not isinstance(message, str):
        raise Broken("an error of no known kind")
    return made
