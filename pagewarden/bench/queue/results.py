"""The table of results that every peer writes to, and a writer that shares commits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pagewarden.bench.queue import driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TABLE = """
create table results (
  job_id bigint primary key,
  result jsonb not null,
  created_at timestamptz not null default now()
)
"""

_INSERT = """
insert into results (job_id, result)
select r.job_id, r.result from unnest($1::bigint[], $2::jsonb[]) as r (job_id, result)
"""


async def create_table(url: str) -> None:
    """Create the table; its key refuses a second result for a job."""
    async with driver.connect(url) as connection:
        await connection.execute(_TABLE)


class Writer:
    """Write the results of handlers that run at the same time in one transaction.

    Libraries that hand over one job at a time leave the result to the handler. Without this,
    each would pay a commit of its own however many run at once.
    """

    def __init__(self, connection: driver.Connection, batch: int) -> None:
        self._connection = connection
        self._batch = batch
        self._waiting: asyncio.Queue[tuple[int, str, asyncio.Future[None]]] = asyncio.Queue()

    async def save(self, job: int, result: str) -> None:
        """Return when the result is committed."""
        saved = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((job, result, saved))
        await saved

    async def run(self) -> None:
        """Write whatever has gathered while the last transaction was under way."""
        while True:
            rows = [await self._waiting.get()]
            while len(rows) < self._batch and not self._waiting.empty():
                rows.append(self._waiting.get_nowait())
            await self._write(rows)

    async def _write(self, rows: list[tuple[int, str, asyncio.Future[None]]]) -> None:
        jobs = [job for job, _, _ in rows]
        await self._connection.execute(_INSERT, jobs, [result for _, result, _ in rows])
        for _, _, saved in rows:
            saved.set_result(None)


@asynccontextmanager
async def writer(url: str, batch: int) -> AsyncIterator[Writer]:
    """Open a writer with a connection of its own."""
    async with driver.connect(url) as connection, asyncio.TaskGroup() as group:
        opened = Writer(connection, batch)
        running = group.create_task(opened.run())
        yield opened
        running.cancel()
