"""pgqueuer on asyncpg, tuned as its guide recommends.

Producers have a pool, each manager has one connection; batch size and autovacuum are set.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pgqueuer
from pgqueuer import db, models, queries

from benchmarks.queue import databases
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pgqueuer.domain import types


_ENTRYPOINT = "read"

_TALLY = """
select
  (select count(*) from pgqueuer_log where status = 'successful'),
  count(*), count(distinct job_id)
from results
"""


@dataclass
class _Queries(queries.Queries):
    """pgqueuer's queries, which also record completed jobs after the commit."""

    record_completed: base.RecordCompleted | None = None

    async def log_jobs(
        self,
        job_status: list[tuple[models.Job, types.JOB_STATUS, models.TracebackRecord | None]],
    ) -> None:
        await super().log_jobs(job_status)
        if self.record_completed is not None:
            self.record_completed([job.id for job, _, _ in job_status])


@dataclass(frozen=True, slots=True)
class Pgqueuer:
    """A queue of pgqueuer."""

    name: str

    async def prepare(self, url: str) -> None:
        """Install the schema and set autovacuum, as `pgq install` and `pgq autovac` do."""
        async with databases.connect_asyncpg(url) as connection:
            installer = queries.Queries(db.AsyncpgDriver(connection))
            await installer.install()
            await installer.optimize_autovacuum()
        await databases.create_results_table(url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Enqueue lists of jobs."""
        numbers = itertools.count()
        async with databases.open_asyncpg_pool(url) as pool:
            sender = queries.Queries(db.AsyncpgPoolDriver(pool))

            async def enqueue(count: int) -> Sequence[base.JobId]:
                payloads: list[bytes | None] = [
                    json.dumps(base.make_payload(next(numbers))).encode() for _ in range(count)
                ]
                return await sender.enqueue([_ENTRYPOINT] * count, payloads, [0] * count)

            yield enqueue

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Run a manager that dequeues `batch` jobs at a time."""
        async with (
            databases.open_result_writer(url, batch) as writer,
            databases.connect_asyncpg(url) as connection,
        ):
            driver = db.AsyncpgDriver(connection)
            manager = pgqueuer.QueueManager(_Queries(driver, record_completed=record_completed))

            @manager.entrypoint(_ENTRYPOINT)
            async def read(job: models.Job) -> None:
                await writer.save(job.id, base.handle_as_json(job.id))

            running = asyncio.create_task(manager.run(batch_size=batch))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            manager.shutdown.set()
            await running

    async def tally(self, url: str) -> base.Tally:
        """Count successful jobs in the log, and results."""
        return await databases.tally(url, _TALLY)


CONTESTANTS = {"pgqueuer": Pgqueuer("pgqueuer")}
