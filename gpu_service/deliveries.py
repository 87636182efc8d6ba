"""A document on its way in: to a private file, piece by piece, and no further than its limit."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic
from fastapi import Request

from gpu_service import refusals
from pagewarden import errors
from pagewarden.files import disk
from pagewarden.gpu import protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

IDLE_SECONDS = 30.0
# For the whole body: a byte now and then does not hold a place for ever.
BODY_SECONDS = 1800.0
MAX_JSON = 65_536

_BYTES = frozenset({"application/pdf", "application/octet-stream", ""})
_JSON = "application/json"


async def ordered(request: Request) -> protocol.Order:
    """Read what is to be done; the body of a document is left where it is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON and kind not in _BYTES and not kind.startswith("image/"):
        raise refusals.Refused(415, "UnsupportedType", _advice(kind))
    with _understood():
        if kind == _JSON:
            text = b"".join([chunk async for chunk in _limited(_body(request), MAX_JSON)])
            order = protocol.Order.model_validate_json(text)
        else:
            order = protocol.Order.model_validate(dict(request.query_params))
    if (order.url is None) == (kind == _JSON):
        raise refusals.Refused(
            400, "InvalidRequest", 'send the document itself, or JSON with its "url"'
        )
    return order


async def take(request: Request, path: Path, max_bytes: int) -> None:
    """Write the body of a request to a file."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    await keep(_body(request), path, max_bytes)


async def keep(chunks: AsyncGenerator[bytes], path: Path, max_bytes: int) -> None:
    """Write what comes to a file, unless it is too much."""
    async with contextlib.aclosing(_limited(chunks, max_bytes)) as limited:
        await disk.save(limited, path)


async def _body(request: Request) -> AsyncGenerator[bytes]:
    """Read the body; whoever falls silent in the middle, or never ends, is not waited for."""
    stream = request.stream()
    deadline = asyncio.get_running_loop().time() + BODY_SECONDS
    async with contextlib.aclosing(stream):
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(min(IDLE_SECONDS, left)):
                    chunk = await anext(stream, b"")
            except TimeoutError as exc:
                raise refusals.Refused(
                    408, "TooSlow", "the document came too slowly; send it again"
                ) from exc
            if not chunk:
                return
            yield chunk


async def _limited(chunks: AsyncGenerator[bytes], limit: int) -> AsyncGenerator[bytes]:
    size = 0
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            yield chunk


def _too_large(limit: int) -> errors.FileTooLarge:
    return errors.FileTooLarge(
        f"the document has more than {limit} bytes; send a smaller one, or split it", limit=limit
    )


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except pydantic.ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in exc.errors()
        )
        raise refusals.Refused(400, "InvalidRequest", problems) from exc


def _advice(kind: str) -> str:
    return (
        f"a body of type {kind[:100]} is none we read; send the document as application/pdf or "
        "application/octet-stream, or JSON with its URL"
    )
