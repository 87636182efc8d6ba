"""Calls of the API: one request each, and a second one where a token had run out."""

from __future__ import annotations

import contextlib
import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from pagewarden import errors
from pagewarden.files.dropbox import access, faults

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 60.0  # in which not one byte comes or goes

_SENT = 256 * 1024  # bytes at once
_READ = 256 * 1024
_NOTHING_FROM_THERE = 416  # the range begins at the end of the file, or behind it


@dataclass(frozen=True, slots=True)
class Content:
    """What Dropbox hands out: the hash of the whole file, and what was asked for of it."""

    content_hash: str
    chunks: AsyncIterator[bytes]


class Api:
    """The two hosts of the API, and our way in."""

    def __init__(self, api_url: str, content_url: str, credentials: access.Credentials) -> None:
        self._client = httpx.AsyncClient(
            verify=_certificates(),
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
            headers={"Accept-Encoding": "identity"},  # sizes and offsets are those of the file
        )
        self._api = api_url.rstrip("/")
        self._content = content_url.rstrip("/")
        self._access = access.Access(self._client, f"{self._api}/oauth2/token", credentials)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def call(self, route: str, argument: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON
        """Ask something; raises Refusal, or an error of ours."""
        headers = {"Content-Type": "application/json"}
        body = json.dumps(argument).encode()
        return await self._ask(f"{self._api}/2/{route}", headers, body)

    async def send(self, route: str, argument: Mapping[str, Any], data: bytes) -> Any:  # noqa: ANN401
        """Hand over a content; raises Refusal, or an error of ours."""
        headers = {"Content-Type": "application/octet-stream", **_argument(argument)}
        return await self._ask(f"{self._content}/2/{route}", headers, data)

    @contextlib.asynccontextmanager
    async def receive(self, place: str, start: int) -> AsyncIterator[Content]:
        """Get a content from start on; raises Refusal, or an error of ours."""
        headers = _argument({"path": place})
        if start:
            headers["Range"] = f"bytes={start}-"
        async with self._answer(f"{self._content}/2/files/download", headers, b"") as response:
            if response.status_code != _NOTHING_FROM_THERE:
                await _check(response)
            yield Content(_hash_of(response), _chunks(response))

    async def _ask(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:  # noqa: ANN401
        async with self._answer(url, headers, body) as response:
            await _check(response)
            with faults.transported():
                answer = await response.aread()
        try:
            return json.loads(answer)
        except ValueError as exc:
            raise errors.StoreAway("Dropbox said something that is no JSON; try again") from exc

    @contextlib.asynccontextmanager
    async def _answer(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[httpx.Response]:
        response = await self._post(url, headers, body, token := await self._access.token())
        if response.status_code == 401:
            await response.aclose()
            self._access.forget(token)
            response = await self._post(url, headers, body, await self._access.token())
        async with contextlib.aclosing(response):
            yield response

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes, token: str
    ) -> httpx.Response:
        about = {"Authorization": f"Bearer {token}", "Content-Length": str(len(body)), **headers}
        request = self._client.build_request("POST", url, headers=about, content=_pieces(body))
        with faults.transported():
            return await self._client.send(request, stream=True)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Load them once: that takes longer than a request, and functions open a store each time."""
    return httpx.create_ssl_context()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Send in pieces: httpx keeps its requests until the garbage is collected, body and all."""
    for start in range(0, len(body), _SENT):
        yield body[start : start + _SENT]


def _argument(argument: Mapping[str, Any]) -> dict[str, str]:
    return {"Dropbox-API-Arg": json.dumps(argument)}  # in ASCII, as a header must be


async def _check(response: httpx.Response) -> None:
    if not response.is_success:
        with faults.transported():
            body = await response.aread()
        raise faults.of_answer(response.status_code, response.headers, body)


async def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    if response.is_success:
        with faults.transported():
            async for chunk in response.aiter_bytes(_READ):
                yield chunk


def _hash_of(response: httpx.Response) -> str:
    with contextlib.suppress(ValueError):
        metadata = json.loads(response.headers.get("Dropbox-API-Result", ""))
        return str(metadata.get("content_hash", ""))
    return ""
