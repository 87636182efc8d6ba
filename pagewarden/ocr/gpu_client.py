"""HTTP client of the GPU service."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from typing import TYPE_CHECKING, Self

import httpx

from pagewarden import errors, retry
from pagewarden.ocr import gpu_protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

CONNECT_SECONDS = 5.0
# How long to retry while the service is full.
MAX_RETRY_SECONDS = 600.0
MIN_WAIT_SECONDS = 0.1
MAX_WAIT_SECONDS = 60.0
# A page has up to 32 MiB; see pagewarden.ocr.sandbox.protocol.
MAX_LINE = 64 << 20

_PendingResponse = contextlib.AbstractAsyncContextManager[httpx.Response]


class Client:
    """Calls the GPU service at `url`.

    A call fails if the service sends nothing for `silence_seconds`. A busy service is called again
    for up to `retry_seconds`.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        silence_seconds: float,
        retry_seconds: float = MAX_RETRY_SECONDS,
    ) -> None:
        self._retry_seconds = retry_seconds
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS, pool=None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get_info(
        self, engine: str | None = None, profile: str | None = None
    ) -> gpu_protocol.ServiceInfo:
        """Return the engine that the service would use for this engine and profile."""
        options = {"engine": engine, "profile": profile}
        params = {name: value for name, value in options.items() if value is not None}
        send = functools.partial(self._http.stream, "GET", gpu_protocol.ABOUT_PATH, params=params)
        async with self._send_with_retries(send) as response:
            return gpu_protocol.unpack_info(await response.aread())

    def read(
        self,
        request: gpu_protocol.ReadRequest,
        size: int,
        chunks: Callable[[], AsyncGenerator[bytes]],
    ) -> AsyncGenerator[gpu_protocol.ResponseLine]:
        """Send a document of `size` bytes, and yield the lines of the response.

        chunks is called again for each retry.
        """

        @contextlib.asynccontextmanager
        async def send() -> AsyncIterator[httpx.Response]:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            params = request.model_dump(exclude_none=True, exclude_defaults=True)
            async with (
                contextlib.aclosing(chunks()) as content,
                self._http.stream(
                    "POST", gpu_protocol.READ_PATH, params=params, headers=headers, content=content
                ) as response,
            ):
                yield response

        return self._read_lines(send)

    def read_url(
        self, request: gpu_protocol.ReadRequest
    ) -> AsyncGenerator[gpu_protocol.ResponseLine]:
        """Let the service download the document from the URL in the request; yield the lines."""
        body = request.model_dump(exclude_none=True, exclude_defaults=True)
        return self._read_lines(
            functools.partial(self._http.stream, "POST", gpu_protocol.READ_PATH, json=body)
        )

    async def _read_lines(
        self, send: Callable[[], _PendingResponse]
    ) -> AsyncGenerator[gpu_protocol.ResponseLine]:
        ended = False
        async with self._send_with_retries(send) as response:
            async for text in _split_lines(response):
                line = gpu_protocol.unpack(text)
                if line.error is not None:
                    raise gpu_protocol.to_error(line.error)
                ended = line.end is not None
                if not ended:
                    yield line
        if not ended:
            raise errors.EngineUnavailable(
                "the GPU service aborted the response; check that it is running"
            )

    @contextlib.asynccontextmanager
    async def _send_with_retries(
        self, send: Callable[[], _PendingResponse]
    ) -> AsyncIterator[httpx.Response]:
        """Send a request, and retry while the service is full."""
        deadline = time.monotonic() + self._retry_seconds
        with self._translate_transport_errors():
            while True:
                async with send() as response:
                    if response.is_success:
                        yield response
                        return
                    wait, error = _to_error(response, await response.aread())
                if wait is None or time.monotonic() + wait > deadline:
                    raise error
                await asyncio.sleep(wait)

    @contextlib.contextmanager
    def _translate_transport_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as exc:
            why = str(exc) or type(exc).__name__
            raise errors.EngineUnavailable(
                f"the GPU service at {self._http.base_url} is not responding ({why}); "
                "check that it is running"
            ) from exc


async def _split_lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Split at line feeds only: text may contain other line separators of Unicode."""
    parts: list[bytes] = []
    async for chunk in response.aiter_raw():
        head, *others = chunk.split(b"\n")
        parts.append(head)
        for other in others:
            if line := b"".join(parts):
                yield line
            parts = [other]
        if sum(map(len, parts)) > MAX_LINE:
            raise errors.InvalidEngineResponse("the GPU service sent a page that is too large")


def _to_error(response: httpx.Response, body: bytes) -> tuple[float | None, errors.PagewardenError]:
    """Return the seconds before a retry (None if it is useless), and the error."""
    fault = _parse_fault(response, body)
    if response.status_code == 401:
        return None, errors.ApiKeyRejected(
            "the GPU service rejected the key; set PAGEWARDEN_SUPABASE_KEY to the key it uses"
        )
    if response.status_code != 503 or gpu_protocol.is_known(fault):
        return None, gpu_protocol.to_error(fault)
    requested = retry.parse_retry_after(response.headers.get("Retry-After"))
    wait = min(max(1.0 if requested is None else requested, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS)
    return retry.add_jitter(wait), gpu_protocol.to_error(fault)


def _parse_fault(response: httpx.Response, body: bytes) -> gpu_protocol.ErrorPayload:
    with contextlib.suppress(errors.InvalidEngineResponse):
        if (fault := gpu_protocol.unpack(body).error) is not None:
            return fault
    # Not from the GPU service itself, but from a proxy in front of it.
    message = f"the GPU service responded with {response.status_code} {response.reason_phrase}"
    return gpu_protocol.ErrorPayload("", message, errors.Category.TRANSIENT, outage=True)
