"""Workers in a process of their own, with a reader of the test's choice; started to be killed.

    python -m tests.support.worker '{"url": …, "reader": "steady", …}'

It prints a line for each page that it is about to read: document and page number.
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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from pagewarden.database import arguments

PAGES = 5


class Orders(pydantic.BaseModel):
    """What the process is to do."""

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


class Deadly(database.Database):
    """A database whose worker is killed before or after a call of some name."""

    def __init__(self, link: database.Database, orders: Orders) -> None:
        self._link = link
        self._orders = orders

    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:
        if name == self._orders.dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await self._link.rpc(name, **given.values)
        if name == self._orders.dies_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

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


class EngineAway(errors.PagewardenError):
    """The engine of this test cannot be reached."""

    category = errors.Category.TRANSIENT
    outage = True


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads five pages of every document, unless its orders say otherwise."""

    orders: Orders

    async def run_for(self, claim: documents.Claim) -> documents.Run:
        """All processes read with the same engine, so they may go on with each other's pages."""
        assert claim.id
        return documents.Run("steady", "1")

    async def read(
        self, claim: documents.Claim, done: frozenset[int]
    ) -> AsyncGenerator[documents.Page]:
        """Read page by page."""
        sign = Path(self.orders.outage_while or "none")
        if sign.exists():  # noqa: ASYNC240  # a file on this machine
            raise EngineAway("the engine does not answer")
        for number in range(1, self.orders.pages + 1):
            if number in done:
                continue
            print(claim.id, number, flush=True)  # noqa: T201  # read by the test
            if self.orders.reader == "killer" and claim.name == "killer":
                os.kill(os.getpid(), signal.SIGKILL)
            if number == self.orders.stuck_at:
                await asyncio.Event().wait()
            await asyncio.sleep(self.orders.page_seconds)
            text = f"page {number} by {self.orders.name}"
            yield documents.Page(number, text=text, confidence=0.9)


async def main(orders: Orders) -> None:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with await database.connect_direct(orders.url, connections=orders.workers * 2) as link:
        crew = [
            documents.Worker(
                database=Deadly(link, orders),
                reader=Reader(orders),
                worker_id=f"{orders.name}-{number}",
                lanes=orders.lanes,
                lock_seconds=orders.lock_seconds,
                heartbeat_seconds=orders.heartbeat_seconds,
                idle_seconds=0.2,
            )
            for number in range(orders.workers)
        ]
        await asyncio.gather(*(worker.run(stop) for worker in crew))


if __name__ == "__main__":
    logs.configure()  # whoever started us reads standard output only as far as it wants to
    asyncio.run(main(Orders.model_validate_json(sys.argv[1])))
