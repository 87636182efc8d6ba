"""A running server, and a person with a computer of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from typer import testing

from pagewarden import cli, client, errors, retry, settings
from pagewarden.client import auth
from pagewarden.documents.pages import to_saved_page
from tests.documents import readers
from tests.exports import samples
from tests.functions import house as houses
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pagewarden.auth.embedded import service

ADA = "ada@example.org"
PASSWORD = "correct horse battery staple"
TEXT = "first page\n\fsecond page\n"
PATIENCE = 60.0


def recorder(**changes: Any) -> readers.Recorder:
    """Read two pages of every document."""
    read = [
        samples.page(samples.line(f"{word} page"), number=number)
        for number, word in enumerate(("first", "second"), 1)
    ]
    pages = [to_saved_page(page, page_count=2, language=None) for page in read]
    return readers.Recorder(pages, **changes)


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Naps:
    """Sleeps no time at all, remembers for how long, and does something else meanwhile."""

    taken: list[float] = field(default_factory=list)
    meanwhile: list[Callable[[], Awaitable[object]]] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """Let others have their turn."""
        self.taken.append(seconds)
        for act in self.meanwhile:
            await act()


@dataclass(frozen=True, slots=True)
class Desk:
    """A server, and the folders of a person who uses it."""

    house: houses.House
    signing: service.AuthService
    folder: Path
    naps: Naps = field(default_factory=Naps)

    @property
    def sessions(self) -> client.SessionStore:
        """Where that person's sessions are."""
        return client.SessionStore(self.folder / "config" / "pagewarden" / "session.json")

    def chosen(self, **changes: Any) -> settings.Settings:
        """Name the server, and no key."""
        usual: dict[str, Any] = {"home": self.folder / "nothing", "site_url": self.house.url}
        return settings.Settings(**usual | changes)

    async def sign_in(self) -> None:
        """Sign in as Ada, who is added before."""
        with contextlib.suppress(errors.SignInRejected):
            await self.signing.users.add(ADA, PASSWORD, is_admin=False)
        async with client.open_connection(self.chosen()) as server, self.sessions.locked():
            session = await auth.sign_in(server, ADA, PASSWORD, {})
            self.sessions.save(self.house.url, session)

    @contextlib.asynccontextmanager
    async def connected(
        self, url: str | None = None, **changes: Any
    ) -> AsyncIterator[client.Client]:
        """Have a client of Ada's, or by the key that the settings name."""
        if not changes:
            await self.sign_in()
        session = self.sessions.get(self.house.url)
        if url is not None and session is not None:
            self.sessions.save(url, session)
        policy = retry.RetryPolicy((0.1, 0.2, 0.4), self.naps, max_wait=120)
        opening = client.open_client(
            self.chosen(**changes), url, sessions=self.sessions, retry_policy=policy
        )
        async with opening as made:
            yield made

    def file(self, name: str = "scan.png", content: bytes = houses.PNG) -> Path:
        """Put a file on that person's disk."""
        path = self.folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    async def read_everything(self) -> None:
        """Read as workers do, until cancelled."""
        while True:
            await self.house.read()
            await asyncio.sleep(0.02)

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[None]:
        """Have whatever comes read."""
        task = asyncio.create_task(self.read_everything())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def started(
        self, *words: str | Path, stderr: int = asyncio.subprocess.PIPE
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start a command in a process of its own, and see to it that it ends."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pagewarden", *words,
            env=os.environ | self.environment() | {"TERM": "xterm"},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def typed(self, *words: str | Path, given: bytes = b"") -> Typed:
        """Type a command and wait for its end; in this process, for it starts much quicker."""
        runner = testing.CliRunner(env=self.environment())
        result = await asyncio.to_thread(runner.invoke, cli.app, list(map(str, words)), input=given)
        code, err = result.exit_code, result.stderr
        if isinstance(result.exception, errors.PagewardenError):
            code, err = 1, f"{err}{result.exception}"
        elif not isinstance(result.exception, SystemExit | None):
            raise result.exception
        return Typed(code, result.stdout, err)

    def environment(self) -> dict[str, str]:
        """Say where the server is, and where that person's folders are."""
        return {
            "PAGEWARDEN_SITE_URL": self.house.url,
            "PAGEWARDEN_HOME": str(self.folder / "nothing"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "COLUMNS": "200",
        }

    async def has_documents(self, count: int, process: asyncio.subprocess.Process) -> None:
        """Wait until the server has so many, as long as the command runs that sends them."""

        async def is_so() -> bool:
            if len(await self.house.documents()) >= count:
                return True
            assert process.returncode is None, await process.communicate()
            return False

        await polling.wait_until(is_so, seconds=PATIENCE)
