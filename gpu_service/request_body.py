"""A document on its way in: to a private file, piece by piece, and no further than its limit."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import httpx
import pydantic
from fastapi import Request

from gpu_service.errors import Refused
from pagewarden import errors
from pagewarden.files import disk
from pagewarden.gpu import protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

IDLE_SECONDS = 30.0
# For the whole body: a byte now and then does not hold a place for ever.
BODY_SECONDS = 1800.0
MAX_JSON = 65_536
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0

_BYTES = frozenset({"application/pdf", "application/octet-stream", ""})
_JSON = "application/json"
_READ = 256 * 1024


async def ordered(request: Request) -> protocol.Order:
    """Read what is to be done; the body of a document is left where it is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON and kind not in _BYTES and not kind.startswith("image/"):
        raise Refused(415, "UnsupportedType", _advice(kind))
    with _understood():
        if kind == _JSON:
            text = b"".join([chunk async for chunk in _limited(_body(request), MAX_JSON)])
            order = protocol.Order.model_validate_json(text)
        else:
            order = protocol.Order.model_validate(dict(request.query_params))
    if (order.url is None) == (kind == _JSON):
        raise Refused(400, "InvalidRequest", 'send the document itself, or JSON with its "url"')
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
                raise Refused(
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
        raise Refused(400, "InvalidRequest", problems) from exc


def _advice(kind: str) -> str:
    return (
        f"a body of type {kind[:100]} is none we read; send the document as application/pdf or "
        "application/octet-stream, or JSON with its URL"
    )


class Links:
    """Fetches what begins with one of the URLs given; no redirect is followed."""

    def __init__(self, beginnings: Sequence[str]) -> None:
        self._beginnings = [httpx.URL(each) for each in beginnings]
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS, pool=None),
            headers={"Accept-Encoding": "identity"},
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def require_ours(self, text: str) -> httpx.URL:
        """Take a URL of our own store, and refuse every other one."""
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL as exc:
            raise _refused(f"that is no URL: {exc}") from exc
        if not any(_leads_into(url, place) for place in self._beginnings):
            raise _refused(
                "that is no URL of our own store; set PAGEWARDEN_FILES and what belongs to it for "
                "the GPU service as for everybody else, or send the document itself"
            )
        return url

    async def fetch(self, url: httpx.URL) -> AsyncGenerator[bytes]:
        """Hand out what is there."""
        with _reached():
            async with self._http.stream("GET", url) as response:
                _check(response)
                async for chunk in response.aiter_raw(_READ):
                    yield chunk


def _leads_into(url: httpx.URL, place: httpx.URL) -> bool:
    """Compare what is really connected to, and see that no path leads out again."""
    same = (url.scheme, url.host, url.port) == (place.scheme, place.host, place.port)
    # Decoded twice: a server behind a proxy may do so too.
    path = unquote(unquote(url.raw_path.decode("ascii").partition("?")[0]))
    parts = path.replace("\\", "/").split("/")
    inside = url.path.startswith(place.path.rstrip("/") + "/")
    return same and inside and not url.userinfo and not {".", ".."} & set(parts)


def _check(response: httpx.Response) -> None:
    status = response.status_code
    if status == 404:
        raise errors.FileNotThere("there is no file at that URL; upload it again")
    if response.is_redirect:
        raise _refused(f"that URL leads on to another one ({status}), which we do not follow")
    if status != 200:
        raise errors.StoreAway(
            f"the store answered with {status} {response.reason_phrase}; was the URL signed for "
            "long enough?"
        )


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as exc:
        why = str(exc) or type(exc).__name__
        raise errors.StoreAway(f"the store does not hand out the file ({why}); try again") from exc


def _refused(message: str) -> Refused:
    # Only our own stores make them, so it is not the document's fault.
    return Refused(400, "UrlRefused", message, ours=True)
