"""Calls of one server over HTTP, with what goes wrong as errors of ours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import httpx

from pagewarden import errors, weak_secrets
from pagewarden.client import answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

CONNECT_SECONDS = 5.0
# Where files go to a store far away, the answer comes when they have arrived there.
SILENCE_SECONDS = 120.0


class Calls:
    """A server by its address, such as https://ocr.example.org."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS, pool=None),
            # No proxy leads to this machine, whatever the environment says.
            trust_env=not weak_secrets.is_this_machine(url),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def require_there(self) -> None:
        """See that anybody answers, before anything is begun."""
        with self._translated():
            await self._http.get("/healthz")

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401
        """Make a call; an answer that is none of success is raised."""
        async with self.stream(method, path, **options) as response:
            await self._read(response)
            return response

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        **options: Any,  # noqa: ANN401  # those of httpx
    ) -> AsyncIterator[httpx.Response]:
        """Make a call whose answer is read by the caller, with chunks()."""
        request = self._http.build_request(method, path, **options)
        with self._translated():
            response = await self._http.send(request, stream=True)
        try:
            if not response.is_success:
                await self._read(response)
                raise answers.refusal(response)
            yield response
        finally:
            await response.aclose()

    async def chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Read an answer piece by piece."""
        pieces = response.aiter_bytes()
        while True:
            with self._translated():
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    async def _read(self, response: httpx.Response) -> None:
        with self._translated():
            await response.aread()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise errors.ServerAway(
                f"there is no server at {self.url}; start it with `pagewarden up`, or name "
                "another with --url"
            ) from exc
        except httpx.TransportError as exc:
            raise errors.ServerAway(
                f"the connection to {self.url} was lost ({str(exc) or type(exc).__name__})"
            ) from exc
