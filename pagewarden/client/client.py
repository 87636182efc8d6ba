"""A Pagewarden server as its clients use it: upload, wait, search, and take the text."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import urllib.parse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors, patience
from pagewarden.client import auth, http
from pagewarden.files import settling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    import httpx

    from pagewarden.settings import Settings

T = TypeVar("T")

# A server that is restarted, or switched off for a moment, is waited for.
PATIENCE = patience.Patience((0.5, 1.0, 2.0, 4.0, 8.0, 15.0), longest_wait=120.0)
_NO_PATIENCE = patience.Patience(())

CHUNK_BYTES = 1 << 20
SHORTEST_SECONDS = 0.2
LONGEST_SECONDS = 5.0
_GROWTH = 1.5
_SHARE = 0.2  # of the time that is left

_FUNCTIONS = "/functions/v1"
_ADDRESS = re.compile(r"https?://[^\s/?#]+")


@dataclass(frozen=True, slots=True)
class Wishes:
    """Where a file goes, and how it is to be read; None leaves that to the server."""

    case_id: str | None = None
    language: str | None = None
    engine: str | None = None
    profile: str | None = None

    def params(self) -> dict[str, str]:
        """Give what an upload says in its query."""
        return {name: value for name, value in asdict(self).items() if value is not None}


NO_WISHES = Wishes()


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched for, and where; None does not restrict it."""

    query: str
    case_id: str | None = None
    language: str | None = None
    limit: int = 20

    def params(self) -> dict[str, str]:
        """Give what a search says in its query."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None}


def _ignore(_position: int) -> None:
    pass


class Client:
    """A server, and who calls it; made by opened().

    Whatever fails in passing is tried again as long as the patience lasts; then it is ServerAway.
    """

    def __init__(
        self, server: http.Calls, caller: auth.Credentials, waiting: patience.Patience
    ) -> None:
        self._server = server
        self._caller = caller
        self._patience = waiting
        self._is_there = True

    @property
    def url(self) -> str:
        """Give the address of the server."""
        return self._server.url

    @property
    def account(self) -> str:
        """Name whoever calls."""
        return self._caller.account

    async def upload(
        self,
        path: Path,
        *,
        name: str | None = None,
        wishes: Wishes = NO_WISHES,
        sent: Callable[[int], None] = _ignore,
    ) -> http.Accepted:
        """Send a file; sent is told how many bytes are on their way, from 0 on at every try."""
        encoded = urllib.parse.quote(os.fsencode(name or path.name), safe="")

        async def send(shown: dict[str, str]) -> httpx.Response:
            with open_file(path) as outgoing:
                about = {"X-File-Name": encoded, "Content-Length": str(outgoing.size)}
                return await self._server.call(
                    "POST",
                    f"{_FUNCTIONS}/upload-to-dropbox",
                    params=wishes.params(),
                    content=outgoing.chunks(sent),
                    headers=about | shown,
                )

        answer = await self._patiently(send)
        return http.Accepted.model_validate_json(answer.content)

    async def status(self, document_id: str) -> http.Progress:
        """Ask how far a document is."""
        answer = await self._ask("GET", f"/documents/{document_id}")
        return http.Progress.model_validate_json(answer.content)

    async def search(self, wanted: Search) -> list[http.Hit]:
        """Find pages that say it, the best first."""
        answer = await self._ask("GET", "/documents", wanted.params())
        return http.HITS.validate_json(answer.content)

    async def cancel(self, document_id: str) -> None:
        """Have a document not read, or not read on."""
        await self._ask("POST", f"/documents/{document_id}/cancel")

    async def submit_check(self, files: Mapping[str, bytes], **fields: str) -> str:
        """Have pictures checked against texts that come with them, and give the id of the job.

        fields are those of the API of jobs; without an idempotency_key a job may come in twice.
        """
        parts = [("images", (name, content)) for name, content in files.items()]

        async def send(shown: dict[str, str]) -> httpx.Response:
            return await self._server.call(
                "POST", f"{_FUNCTIONS}/jobs", data=fields, files=parts, headers=shown
            )

        job_id: str = (await self._patiently(send)).json()["jobId"]
        return job_id

    async def save_text(self, document_id: str, format_name: str, target: BinaryIO) -> None:
        """Write what was read, in a format of pagewarden.exports, to a new file."""

        async def save(shown: dict[str, str]) -> None:
            await settling.in_thread(_begin_again, target)
            async with self._server.stream(
                "GET",
                f"{_FUNCTIONS}/documents/{document_id}/export",
                params={"format": format_name},
                headers=shown,
            ) as response:
                async for chunk in self._server.chunks(response):
                    await settling.in_thread(target.write, chunk)

        await self._patiently(save)

    async def _ask(
        self, method: str, path: str, params: dict[str, str] | None = None
    ) -> httpx.Response:
        async def ask(shown: dict[str, str]) -> httpx.Response:
            return await self._server.call(method, _FUNCTIONS + path, params=params, headers=shown)

        return await self._patiently(ask)

    async def _patiently(self, call: Callable[[dict[str, str]], Awaitable[T]]) -> T:
        """Try again what fails in passing; a server that did not come back is not waited for."""
        waiting = self._patience if self._is_there else _NO_PATIENCE
        try:
            answer = await waiting.persist(functools.partial(self._once, call))
        except errors.ServerAway:
            self._is_there = False
            raise
        self._is_there = True
        return answer

    async def _once(self, call: Callable[[dict[str, str]], Awaitable[T]]) -> T:
        """Call as whoever calls; credentials that are refused are renewed once."""
        shown = await self._caller.headers()
        try:
            return await call(shown)
        except errors.NotSignedIn:
            await self._caller.renew(shown)
        return await call(await self._caller.headers())


@contextlib.asynccontextmanager
async def opened(
    settings: Settings,
    url: str | None = None,
    *,
    kept: auth.Sessions | None = None,
    waiting: patience.Patience = PATIENCE,
) -> AsyncIterator[Client]:
    """Have a client of the server at this address, otherwise of that in the settings."""
    async with connected(settings, url) as server:
        caller = auth.find(settings, server, kept or auth.Sessions())
        await server.require_there()
        yield Client(server, caller, waiting)


@contextlib.asynccontextmanager
async def connected(settings: Settings, url: str | None = None) -> AsyncIterator[http.Calls]:
    """Have a way to the server, whoever calls."""
    server = http.Calls(address(url) if url else settings.site_url)
    try:
        yield server
    finally:
        await server.aclose()


def address(url: str) -> str:
    """Make the address of a server of what somebody typed."""
    found = url.rstrip("/")
    if _ADDRESS.fullmatch(found) is None:
        raise errors.SettingsError(
            f"{url!r} is no address of a server; say it like https://ocr.example.org"
        )
    return found


def _begin_again(target: BinaryIO) -> None:
    target.seek(0)
    target.truncate()


def pause(idle_polls: int, seconds_left: float | None) -> float:
    """Say how long to wait before asking again, after so many answers with nothing new."""
    growing = SHORTEST_SECONDS * _GROWTH ** min(idle_polls, 20)
    hinted = LONGEST_SECONDS if seconds_left is None else seconds_left * _SHARE
    return min(max(hinted, SHORTEST_SECONDS), growing, LONGEST_SECONDS)


async def until_ended(
    client: Client,
    document_id: str,
    *,
    seen: Callable[[http.Progress], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> http.Progress:
    """Ask until the document is read, or until it is clear that it will not be."""
    last, idle_polls = None, 0
    while True:
        progress = await client.status(document_id)
        seen(progress)
        if progress.stage is not http.Stage.UNDER_WAY:
            return progress
        idle_polls = idle_polls + 1 if progress == last else 0
        last = progress
        await sleep(pause(idle_polls, progress.seconds_left))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An open file with the bytes it had when it was opened; what is added is for next time."""

    path: Path
    file: BinaryIO
    size: int

    async def chunks(self, sent: Callable[[int], None]) -> AsyncIterator[bytes]:
        """Read it from the beginning; sent is told how many bytes were taken."""
        self.file.seek(0)
        position = 0
        sent(position)
        while position < self.size:
            with translated(self.path):
                wanted = min(CHUNK_BYTES, self.size - position)
                chunk = await settling.in_thread(self.file.read, wanted)
            if not chunk:
                raise errors.LocalFileError(
                    f"{self.path} became shorter while it was sent; send it when it is finished"
                )
            yield chunk
            position += len(chunk)
            sent(position)


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[Outgoing]:
    """Open a file that is to be sent."""
    with translated(path):
        file = path.open("rb")
    with file:
        yield Outgoing(path, file, os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise an error of ours for what the system says of a file."""
    try:
        yield
    except OSError as exc:
        raise errors.LocalFileError(f"{path} cannot be used ({exc.strerror or exc})") from exc
