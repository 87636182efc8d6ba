"""A process with workers and a fake reader, which tests can kill.

    python -m tests.support.worker '{"url": …, "reader": "steady", …}'

It prints a line before each page that it reads: document and page number.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic

from pagewarden import database, documents, errors
from pagewarden.telemetry import logs
from tests.support.single_reader import SingleReader

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from pagewarden.database import arguments

PAGES = 5


class WorkerOptions(pydantic.BaseModel):
    """Options of the process."""

    url: str
    reader: str = "steady"
    name: str = "worker"
    workers: int = 1
    lock_seconds: float = 2
    heartbeat_seconds: float = 0.5
    page_seconds: float = 0
    stuck_at: int = 0
    outage_while: str = ""
    lanes: list[str] = ["image"]
    pages: int = PAGES
    dies_before: str = ""
    dies_after: str = ""


class KillingDatabase(database.Database):
    """A database client that kills its process before or after a certain call."""

    def __init__(self, connection: database.Database, options: WorkerOptions) -> None:
        self._connection = connection
        self._options = options

    async def _rpc(self, name: str, parameters: arguments.Arguments) -> Any:
        if name == self._options.dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await self._connection.rpc(name, **parameters.values)
        if name == self._options.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        raise NotImplementedError(query.table)

    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        raise NotImplementedError(change.query.table)

    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        raise NotImplementedError(change.query.table)

    def acting_as(self, user: database.User) -> database.Database:
        """Return a client of the same database that acts as this user."""
        return self._connection.acting_as(user)

    async def aclose(self) -> None:
        """Do nothing: the connection is closed by its owner."""


class EngineUnavailable(errors.PagewardenError):
    """The fake engine is unavailable."""

    category = errors.Category.TRANSIENT
    outage = True


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a number of pages of every document."""

    options: WorkerOptions

    async def get_run(self, claim: documents.Claim) -> documents.ReadingRun:
        """Return the same engine for all processes, so that they can resume each other's pages."""
        assert claim.id
        return documents.ReadingRun("steady", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Read page by page."""
        outage_marker = Path(self.options.outage_while or "none")
        if outage_marker.exists():  # noqa: ASYNC240  # a local file
            raise EngineUnavailable("the engine does not answer")
        for number in range(1, self.options.pages + 1):
            if number in done:
                continue
            print(claim.id, number, flush=True)  # noqa: T201  # read by the test
            if self.options.reader == "killer" and claim.name == "killer":
                os.kill(os.getpid(), signal.SIGKILL)
            if number == self.options.stuck_at:
                await asyncio.Event().wait()
            await asyncio.sleep(self.options.page_seconds)
            text = f"page {number} by {self.options.name}"
            yield documents.Page(number, text=text, confidence=0.9)


async def main(options: WorkerOptions) -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with await database.connect_direct(
        options.url, connections=options.workers * 2
    ) as connection:
        workers = [
            documents.Worker(
                database=KillingDatabase(connection, options),
                reader=SingleReader(Reader(options)),
                worker_id=f"{options.name}-{number}",
                lanes=options.lanes,
                lock_seconds=options.lock_seconds,
                heartbeat_seconds=options.heartbeat_seconds,
                idle_seconds=0.2,
            )
            for number in range(options.workers)
        ]
        await asyncio.gather(*(worker.run(stop) for worker in workers))


if __name__ == "__main__":
    logs.configure()  # to standard error: the test does not read all of standard output
    asyncio.run(main(WorkerOptions.model_validate_json(sys.argv[1])))
