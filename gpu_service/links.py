"""Files that we are told to fetch: from our own store, and from nowhere else."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import httpx

from gpu_service import refusals
from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
_READ = 256 * 1024


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


def _refused(message: str) -> refusals.Refused:
    # Only our own stores make them, so it is not the document's fault.
    return refusals.Refused(400, "UrlRefused", message, ours=True)
