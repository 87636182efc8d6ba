"""The HTTP client under Google's library: a time-out here is one for the whole answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

CONNECT_SECONDS = 10.0  # whoever is there says so sooner

_ENDS = "pagewarden_ends"


def client() -> httpx.Client:
    """Make a client that follows no redirect (the key would travel along)."""
    return httpx.Client(event_hooks={"request": [_start], "response": [_bound]})


class _Bounded(httpx.SyncByteStream):
    """The body of an answer, which must be complete by a given time.

    httpx itself only bounds the wait for each piece, so a service that sends a byte now and
    then would hold a thread forever.
    """

    def __init__(self, stream: httpx.SyncByteStream, ends: float) -> None:
        self._stream = stream
        self._ends = ends

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._stream:
            if time.monotonic() > self._ends:
                raise httpx.ReadTimeout("the answer came too slowly")
            yield piece

    def close(self) -> None:
        self._stream.close()


def _start(request: httpx.Request) -> None:
    timeout = request.extensions["timeout"]
    timeout["connect"] = min(timeout["connect"], CONNECT_SECONDS)
    request.extensions[_ENDS] = time.monotonic() + timeout["read"]


def _bound(response: httpx.Response) -> None:
    stream = cast("httpx.SyncByteStream", response.stream)
    response.stream = _Bounded(stream, response.request.extensions[_ENDS])
