"""Readers of the test's choice, and what a worker does with them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagewarden import database, documents
from pagewarden.database import listener, tables
from tests.database import factories
from tests.support import polling
from tests.support.single_reader import SingleReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from pagewarden.database import arguments
    from tests.support import databases

LONG = 60.0
"""Longer than a test may wait."""
PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Recorder:
    """Reads the pages it was given, and writes down which documents it was asked for.

    An error among the pages is raised. stuck: after the last page it waits for ever.
    """

    pages: Sequence[documents.Page | Exception] = (documents.Page(1, text="text"),)
    stuck: bool = False
    asked: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    skipped: list[frozenset[int]] = field(default_factory=list)

    async def get_run(self, claim: documents.Claim) -> documents.ReadingRun:
        """Name a run that is always the same."""
        assert claim.lock_token
        return documents.ReadingRun("recorder", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Hand out the pages."""
        self.asked.put_nowait(claim.id)
        self.skipped.append(done)
        for page in self.pages:
            if isinstance(page, Exception):
                raise page
            if page.number not in done:
                yield page
        if self.stuck:
            await asyncio.Event().wait()

    async def next(self) -> str:
        """Wait for the next document that it is asked for."""
        async with asyncio.timeout(PATIENCE):
            return await self.asked.get()


class Counted(database.Database):
    """Counts the calls of a database; reports, which come by the clock, do not count."""

    def __init__(self, link: database.Database) -> None:
        self._link = link
        self.names: list[str] = []

    @property
    def calls(self) -> int:
        """Count those that do not come by the clock."""
        return sum(name != "report_pool" for name in self.names)

    def of(self, *names: str) -> int:
        """Count the calls of these functions."""
        return sum(name in names for name in self.names)

    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:
        self.names.append(name)
        return await self._link.rpc(name, **given.values)

    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        raise NotImplementedError(query.table)

    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        raise NotImplementedError(change.query.table)

    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        raise NotImplementedError(change.query.table)

    def acting_as(self, user: database.User) -> database.Database:
        """See the same database as this user."""
        return self._link.acting_as(user)

    async def aclose(self) -> None:
        """Leave that to whoever opened it."""


@dataclass(frozen=True, slots=True)
class Desk:
    """A database as a worker sees it, and somebody who uploads."""

    link: database.Database
    factory: factories.Factory

    def worker(self, reader: documents.DocumentReader, **changes: Any) -> documents.Worker:
        """Have a worker of lane image that hardly ever polls."""
        usual: dict[str, Any] = {
            "database": self.link,
            "reader": SingleReader(reader),
            "worker_id": "worker-1",
            "lanes": ["image"],
            "lock_seconds": 20,
            "heartbeat_seconds": 5,
            "idle_seconds": LONG,
        }
        return documents.Worker(**usual | changes)

    async def drain(self, reader: documents.DocumentReader, **changes: Any) -> dict[str, int]:
        """Let a worker do all there is to do."""
        async with asyncio.timeout(PATIENCE):
            outcomes = await self.worker(reader, **changes).drain(asyncio.Event())
        return {str(outcome): count for outcome, count in outcomes.items()}

    async def row(self, document: object) -> Any:
        """Read a document as it is now."""
        (row,) = await self.link.select(tables.documents, where={"id": str(document)})
        return row

    async def is_waited_for(self, lane: str = "image") -> None:
        """Wait until somebody waits for documents."""
        query = "select count(*) from private.idle_lanes where lane = %s"

        async def is_marked() -> bool:
            return await (await self.factory.conn.execute(query, (lane,))).fetchone() == (1,)

        await polling.wait_until(is_marked, seconds=PATIENCE)

    async def has_saved(self, count: int) -> None:
        """Wait until so many pages are saved."""

        async def is_so() -> bool:
            return len(await self.link.select(tables.ocr_pages, columns="page_number")) == count

        await polling.wait_until(is_so, seconds=PATIENCE)


@contextlib.asynccontextmanager
async def opened(test_database: databases.Database) -> AsyncIterator[Desk]:
    """Connect as service role, so that the test can look at tables through the link too."""
    async with await database.connect_direct(test_database.url()) as link:
        yield Desk(link, await factories.Factory.of(test_database))


@contextlib.asynccontextmanager
async def at_work(worker: documents.Worker) -> AsyncIterator[asyncio.Event]:
    """Run a worker beside the test; the event stops it."""
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield stop
        stop.set()
        async with asyncio.timeout(PATIENCE):
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@contextlib.asynccontextmanager
async def listening(test_database: databases.Database) -> AsyncIterator[listener.Listener]:
    """Listen as a worker does that holds no other rights, and wait until that is so."""
    url = test_database.url("pagewarden_worker")
    async with listener.open_listener(url) as hints:
        with hints.subscribe(["image"]) as bell:
            async with asyncio.timeout(PATIENCE):
                await bell.wait()  # rung once when the connection is there
        yield hints
