"""Calls of the GPU service."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import time
from typing import TYPE_CHECKING, Self

import httpx

from pagewarden import errors
from pagewarden.gpu import protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

CONNECT_SECONDS = 5.0
# While the service is full it lives, so this is about whether it ever gets to us.
PATIENCE_SECONDS = 600.0
LEAST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 60.0
# A page may have 32 MiB, see pagewarden.reading.sandbox.wire.
MAX_LINE = 64 << 20

_Sending = contextlib.AbstractAsyncContextManager[httpx.Response]


class Client:
    """A service at url, which is dead when it is silent for so many seconds."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        silence_seconds: float,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._patience = patience_seconds
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS, pool=None),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def about(self, engine: str | None = None, profile: str | None = None) -> protocol.About:
        """Ask what the service reads with, when one wishes for this."""
        wishes = {"engine": engine, "profile": profile}
        params = {name: wish for name, wish in wishes.items() if wish is not None}
        ask = functools.partial(self._http.stream, "GET", protocol.ABOUT_PATH, params=params)
        async with self._answered(ask) as response:
            return protocol.unpack_about(await response.aread())

    def read(
        self, order: protocol.Order, size: int, chunks: Callable[[], AsyncGenerator[bytes]]
    ) -> AsyncGenerator[protocol.Line]:
        """Have a document read whose bytes we send; the lines tell of it and of its pages.

        chunks is called once more when the service had no room.
        """

        @contextlib.asynccontextmanager
        async def send() -> AsyncIterator[httpx.Response]:
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            params = order.model_dump(exclude_none=True, exclude_defaults=True)
            async with (
                contextlib.aclosing(chunks()) as content,
                self._http.stream(
                    "POST", protocol.READ_PATH, params=params, headers=headers, content=content
                ) as response,
            ):
                yield response

        return self._lines(send)

    def read_url(self, order: protocol.Order) -> AsyncGenerator[protocol.Line]:
        """Have a document read that the service fetches itself from the URL in the order."""
        wanted = order.model_dump(exclude_none=True, exclude_defaults=True)
        return self._lines(
            functools.partial(self._http.stream, "POST", protocol.READ_PATH, json=wanted)
        )

    async def _lines(self, send: Callable[[], _Sending]) -> AsyncGenerator[protocol.Line]:
        ended = False
        async with self._answered(send) as response:
            async for text in _split(response):
                line = protocol.unpack(text)
                if line.error is not None:
                    raise protocol.error_of(line.error)
                ended = line.end is not None
                if not ended:
                    yield line
        if not ended:
            raise errors.EngineAway("the GPU service stopped in the middle; see whether it runs")

    @contextlib.asynccontextmanager
    async def _answered(self, send: Callable[[], _Sending]) -> AsyncIterator[httpx.Response]:
        """Make a request, again while the service has no room for it."""
        deadline = time.monotonic() + self._patience
        with self._reached():
            while True:
                async with send() as response:
                    if response.is_success:
                        yield response
                        return
                    wait, error = _refusal(response, await response.aread())
                if wait is None or time.monotonic() + wait > deadline:
                    raise error
                await asyncio.sleep(wait)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as exc:
            why = str(exc) or type(exc).__name__
            raise errors.EngineAway(
                f"the GPU service at {self._http.base_url} does not answer ({why}); "
                "see whether it runs"
            ) from exc


async def _split(response: httpx.Response) -> AsyncIterator[bytes]:
    """Split at line feeds alone: in text there may be whatever else Unicode calls a line's end."""
    parts: list[bytes] = []
    async for chunk in response.aiter_raw():
        head, *others = chunk.split(b"\n")
        parts.append(head)
        for other in others:
            if line := b"".join(parts):
                yield line
            parts = [other]
        if sum(map(len, parts)) > MAX_LINE:
            raise errors.AnswerUnusable("the GPU service said more than a page can hold")


def _refusal(response: httpx.Response, body: bytes) -> tuple[float | None, errors.PagewardenError]:
    """Say what a refusal means, and in how many seconds to ask again, if that makes sense."""
    fault = _fault(response, body)
    if response.status_code == 401:
        return None, errors.KeyRefused(
            "the GPU service wants another key; set PAGEWARDEN_SUPABASE_KEY to the same one there"
        )
    if response.status_code != 503 or protocol.is_known(fault):
        return None, protocol.error_of(fault)
    return _wait(response.headers.get("Retry-After")), protocol.error_of(fault)


def _fault(response: httpx.Response, body: bytes) -> protocol.Fault:
    with contextlib.suppress(errors.AnswerUnusable):
        if (fault := protocol.unpack(body).error) is not None:
            return fault
    # Not our service: whatever stands before it.
    message = f"the GPU service answered with {response.status_code} {response.reason_phrase}"
    return protocol.Fault("", message, errors.Category.TRANSIENT, outage=True)


def _wait(retry_after: str | None) -> float:
    """Wait as long as we are asked to, and not all at the same moment."""
    wanted = float(retry_after) if retry_after and retry_after.isdecimal() else 1.0
    bounded = min(max(wanted, LEAST_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
    return bounded * random.uniform(1.0, 1.25)  # noqa: S311  # no secret
