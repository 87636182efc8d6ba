"""absurd: durable tasks in Postgres, with its own worker.

absurd stores the result of a task in its own table, so there is no separate results table.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import absurd_sdk
import absurdctl  # type: ignore[import-untyped]
from psycopg import sql

from benchmarks.queue import databases
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


_QUEUE = "bench"
_TASK = "read"

# One statement per batch; the library's own spawn needs a call per task.
_SPAWN = """
select task.task_id::text
from unnest($1::jsonb[]) as payload, absurd.spawn_task('bench', 'read', payload) as task
"""

_TALLY = """
select
  count(*) filter (where state = 'completed'),
  count(completed_payload), count(completed_payload)
from absurd.t_bench
"""


class _Absurd(absurd_sdk.AsyncAbsurd):
    """absurd's client, which also records a completed task after the commit."""

    def __init__(self, url: str, record_completed: base.RecordCompleted) -> None:
        super().__init__(url, queue_name=_QUEUE)
        self._record_completed = record_completed

    async def _execute_task(self, task: Any, claim_timeout: int) -> None:  # noqa: ANN401
        await super()._execute_task(task, claim_timeout)
        self._record_completed([str(task["task_id"])])


@dataclass(frozen=True, slots=True)
class AbsurdQueue:
    """A queue of absurd."""

    name: str

    async def prepare(self, url: str) -> None:
        """Apply absurd's schema and create a queue."""
        async with await databases.connect(url) as connection:
            script = sql.SQL(absurdctl.BUNDLED_SCHEMA_SQL)
            await connection.execute(script, prepare=False)
            await connection.execute("select absurd.create_queue('bench')")

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Spawn a batch of tasks in one statement."""
        numbers = itertools.count()
        async with databases.connect_asyncpg(url) as connection:

            async def enqueue(count: int) -> Sequence[base.JobId]:
                payloads = [json.dumps(base.make_payload(next(numbers))) for _ in range(count)]
                return [row[0] for row in await connection.fetch(_SPAWN, payloads)]

            yield enqueue

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Run a worker that claims up to `batch` tasks at a time."""
        app = _Absurd(url, record_completed)

        @app.register_task(_TASK)
        async def read(params: object, context: Any) -> Any:  # noqa: ANN401, ARG001
            return base.handle(str(context.task_id))

        worker = asyncio.create_task(
            app.start_worker(concurrency=batch, batch_size=batch, poll_interval=base.IDLE_SECONDS)
        )
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((worker, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        app.stop_worker()
        with contextlib.suppress(asyncio.CancelledError):
            await worker
        await app.close()

    async def tally(self, url: str) -> base.Tally:
        """Count completed tasks, and those with a result."""
        return await databases.tally(url, _TALLY)


CONTESTANTS = {"absurd": AbsurdQueue("absurd")}
