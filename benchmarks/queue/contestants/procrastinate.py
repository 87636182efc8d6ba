"""procrastinate with its own App, connector and worker."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import procrastinate
import psycopg_pool
from procrastinate import manager

from benchmarks.queue import databases
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from procrastinate import jobs


_TASK = "read"

# A worker fetches jobs one by one and finishes them concurrently. The differences between pools of
# 3, 8 and 16 connections were within the noise.
_CONNECTIONS = 8

_TALLY = """
select
  (select count(*) from procrastinate_jobs where status = 'succeeded'),
  count(*), count(distinct job_id)
from results
"""


class _Manager(manager.JobManager):
    """procrastinate's manager, which also records a completed job after the commit."""

    def __init__(self, app: procrastinate.App, record_completed: base.RecordCompleted) -> None:
        super().__init__(connector=app.connector)
        self._record_completed = record_completed

    async def finish_job(
        self,
        job: jobs.Job,
        status: jobs.Status,
        delete_job: bool,  # noqa: FBT001  # the signature is procrastinate's
    ) -> None:
        await super().finish_job(job, status, delete_job)
        if job.id is not None:
            self._record_completed([job.id])


@dataclass(frozen=True, slots=True)
class Procrastinate:
    """A queue of procrastinate."""

    name: str

    async def prepare(self, url: str) -> None:
        """Apply procrastinate's schema."""
        async with _open_app(url, 1) as app:
            await app.schema_manager.apply_schema_async()
        await databases.create_results_table(url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Defer with `batch_defer_async`."""
        numbers = itertools.count()
        async with _open_app(url, 1) as app:
            task = app.configure_task(_TASK)

            async def enqueue(count: int) -> Sequence[base.JobId]:
                return await task.batch_defer_async(
                    *(base.make_payload(next(numbers)) for _ in range(count))
                )

            yield enqueue

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Run a worker with up to `batch` concurrent jobs."""
        connections = min(batch + 1, _CONNECTIONS)
        async with (
            databases.open_result_writer(url, batch) as writer,
            _open_app(url, connections) as app,
        ):
            app.job_manager = _Manager(app, record_completed)
            _register_task(app, writer)
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=batch, install_signal_handlers=False)
            )
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait((worker, stopped), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker

    async def tally(self, url: str) -> base.Tally:
        """Count succeeded jobs and results."""
        return await databases.tally(url, _TALLY)


@asynccontextmanager
async def _open_app(url: str, connections: int) -> AsyncIterator[procrastinate.App]:
    """Open an app with our own pool: procrastinate's checks a connection before each use."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector())
    async with (
        psycopg_pool.AsyncConnectionPool(
            url, min_size=connections, max_size=connections, open=False
        ) as pool,
        app.open_async(pool),
    ):
        yield app


def _register_task(app: procrastinate.App, writer: databases.ResultWriter) -> None:
    @app.task(name=_TASK, pass_context=True)
    async def read(context: procrastinate.JobContext, /, **_: object) -> None:
        job = context.job.id
        if job is not None:
            await writer.save(job, base.handle_as_json(job))


CONTESTANTS = {"procrastinate": Procrastinate("procrastinate")}
