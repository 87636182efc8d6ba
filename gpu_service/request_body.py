"""The document of a request: the body itself, or a file of our store whose URL is in JSON.

Documents are streamed to a private file, up to the size limit, and are never held in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import httpx
import pydantic
from fastapi import Request

from pagewarden import errors
from pagewarden.gpu_service.errors import RequestRejected, format_validation_error
from pagewarden.ocr import gpu_protocol
from pagewarden.storage import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

IDLE_SECONDS = 30.0
# For the whole body: a slow client must not hold a slot indefinitely.
BODY_SECONDS = 1800.0
MAX_JSON_BYTES = 65_536
STORE_CONNECT_SECONDS = 5.0
STORE_IDLE_SECONDS = 30.0

_DOCUMENT_TYPES = frozenset({"application/pdf", "application/octet-stream", ""})
_JSON = "application/json"
_CHUNK_BYTES = 256 * 1024


async def parse_read_request(request: Request) -> gpu_protocol.ReadRequest:
    """Parse the query or the JSON of a request; the body of a document is not read yet."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_document = media_type in _DOCUMENT_TYPES or media_type.startswith("image/")
    if media_type != _JSON and not is_document:
        raise _unsupported_type_error(media_type)
    with _translate_validation_errors():
        if media_type == _JSON:
            text = b"".join([chunk async for chunk in _limit(_body(request), MAX_JSON_BYTES)])
            read_request = gpu_protocol.ReadRequest.model_validate_json(text)
        else:
            read_request = gpu_protocol.ReadRequest.model_validate(dict(request.query_params))
    if (read_request.url is None) == (media_type == _JSON):
        raise RequestRejected(
            400, "InvalidRequest", 'send the document itself, or JSON with its "url"'
        )
    return read_request


async def save_body(request: Request, path: Path, max_bytes: int) -> None:
    """Write the body of a request to a file."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large_error(max_bytes)
    await save_chunks(_body(request), path, max_bytes)


async def save_chunks(chunks: AsyncGenerator[bytes], path: Path, max_bytes: int) -> None:
    """Write chunks to a file; raise FileTooLarge beyond max_bytes."""
    async with contextlib.aclosing(_limit(chunks, max_bytes)) as limited:
        await scratch.write_file(limited, path)


class StoreFetcher:
    """Downloads files whose URLs start with one of the prefixes; redirects are not followed."""

    def __init__(self, url_prefixes: Sequence[str]) -> None:
        self._prefixes = [httpx.URL(prefix) for prefix in url_prefixes]
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(STORE_IDLE_SECONDS, connect=STORE_CONNECT_SECONDS, pool=None),
            headers={"Accept-Encoding": "identity"},
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def require_store_url(self, text: str) -> httpx.URL:
        """Parse a URL; refuse it unless it is in our store."""
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL as exc:
            raise _url_rejected_error(f"invalid URL: {exc}") from exc
        if not any(_is_under_prefix(url, prefix) for prefix in self._prefixes):
            raise _url_rejected_error(
                "the URL does not point to the configured file store; give the GPU service the "
                "same PAGEWARDEN_FILES "
                "and related settings as the workers, or send the document itself"
            )
        return url

    async def fetch(self, url: httpx.URL) -> AsyncGenerator[bytes]:
        """Yield the content of a file."""
        with _translate_transport_errors():
            async with self._http.stream("GET", url) as response:
                _require_success(response)
                async for chunk in response.aiter_raw(_CHUNK_BYTES):
                    yield chunk


async def _body(request: Request) -> AsyncGenerator[bytes]:
    """Yield the body, with a timeout for each chunk and for the whole."""
    stream = request.stream()
    deadline = asyncio.get_running_loop().time() + BODY_SECONDS
    async with contextlib.aclosing(stream):
        while True:
            remaining = deadline - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(min(IDLE_SECONDS, remaining)):
                    chunk = await anext(stream, b"")
            except TimeoutError as exc:
                raise RequestRejected(
                    408, "TooSlow", "the document took too long to arrive; send it again"
                ) from exc
            if not chunk:
                return
            yield chunk


async def _limit(chunks: AsyncGenerator[bytes], max_bytes: int) -> AsyncGenerator[bytes]:
    size = 0
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            size += len(chunk)
            if size > max_bytes:
                raise _too_large_error(max_bytes)
            yield chunk


def _is_under_prefix(url: httpx.URL, prefix: httpx.URL) -> bool:
    """Compare scheme, host, port and path; refuse paths that could lead out of the prefix."""
    same = (url.scheme, url.host, url.port) == (prefix.scheme, prefix.host, prefix.port)
    # Decoded twice: a server behind a proxy may do so too.
    path = unquote(unquote(url.raw_path.decode("ascii").partition("?")[0]))
    parts = path.replace("\\", "/").split("/")
    below = url.path.startswith(prefix.path.rstrip("/") + "/")
    return same and below and not url.userinfo and not {".", ".."} & set(parts)


def _require_success(response: httpx.Response) -> None:
    status = response.status_code
    if status == 404:
        raise errors.FileNotFound("there is no file at that URL; upload it again")
    if response.is_redirect:
        raise _url_rejected_error(f"the URL redirects ({status}); redirects are not followed")
    if status != 200:
        raise errors.StoreUnavailable(
            f"the store responded with {status} {response.reason_phrase}; the signed URL may have "
            "expired"
        )


@contextlib.contextmanager
def _translate_transport_errors() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as exc:
        reason = str(exc) or type(exc).__name__
        raise errors.StoreUnavailable(
            f"cannot download from the store ({reason}); try again"
        ) from exc


@contextlib.contextmanager
def _translate_validation_errors() -> Iterator[None]:
    try:
        yield
    except pydantic.ValidationError as exc:
        raise RequestRejected(400, "InvalidRequest", format_validation_error(exc.errors())) from exc


def _unsupported_type_error(media_type: str) -> RequestRejected:
    return RequestRejected(
        415,
        "UnsupportedType",
        f"unsupported body type {media_type[:100]}; send the document as application/pdf or "
        "application/octet-stream, or its URL as JSON",
    )


def _too_large_error(limit: int) -> errors.FileTooLarge:
    return errors.FileTooLarge(
        f"the document exceeds {limit} bytes; send a smaller document, or split it", limit=limit
    )


def _url_rejected_error(message: str) -> RequestRejected:
    # Only our own stores sign these URLs, so the document is not at fault.
    return RequestRejected(400, "UrlRefused", message, outage=True)
