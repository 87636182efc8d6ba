"""pgmq through its SQL functions."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgmq import install
from psycopg import sql

from benchmarks.queue import databases
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


_VISIBILITY_SECONDS = 60

_SEND = "select * from pgmq.send_batch('bench', $1::jsonb[])"
_READ = "select msg_id, message from pgmq.read('bench', $1, $2)"

# Results and completion share a transaction and a round trip; the next read is a separate call, as
# in pgmq's documentation. One statement for all three was 8 % faster at batch 1 and 13 % at 10, but
# sometimes two workers deadlocked.
_ARCHIVE = """
with done as (select id from pgmq.archive('bench', $1::bigint[]) as id)
insert into results (job_id, result)
select r.job_id, r.result
from unnest($1::bigint[], $2::jsonb[]) as r (job_id, result)
join done on done.id = r.job_id
"""
_DELETE = """
with done as (select id from pgmq.delete('bench', $1::bigint[]) as id)
insert into results (job_id, result)
select r.job_id, r.result
from unnest($1::bigint[], $2::jsonb[]) as r (job_id, result)
join done on done.id = r.job_id
"""

_TALLY = """
select
  (select last_value from pgmq.q_bench_msg_id_seq) - (select count(*) from pgmq.q_bench),
  count(*), count(distinct job_id)
from results
"""


@dataclass(frozen=True, slots=True)
class Pgmq:
    """A queue of pgmq; `complete` is the statement that completes a batch."""

    name: str
    complete: str

    async def prepare(self, url: str) -> None:
        """Install pgmq's own SQL and create a queue."""
        async with await databases.connect(url) as connection:
            script = install.get_embedded_install_sql()
            query = sql.SQL(script)
            await connection.execute(query, prepare=False)
            await connection.execute("select pgmq.create('bench')")
        await databases.create_results_table(url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Send with `send_batch`."""
        numbers = itertools.count()
        async with databases.connect_asyncpg(url) as connection:

            async def enqueue(count: int) -> Sequence[base.JobId]:
                messages = [json.dumps(base.make_payload(next(numbers))) for _ in range(count)]
                return [row[0] for row in await connection.fetch(_SEND, messages)]

            yield enqueue

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Read and complete batches; poll while the queue is empty."""
        async with databases.connect_asyncpg(url) as connection:
            while not stop.is_set():
                rows = await connection.fetch(_READ, _VISIBILITY_SECONDS, batch)
                if rows:
                    jobs: list[int] = [row[0] for row in rows]
                    texts = [base.handle_as_json(job) for job in jobs]
                    await connection.fetch(self.complete, jobs, texts)
                    record_completed(jobs)
                else:
                    await asyncio.sleep(base.IDLE_SECONDS)

    async def tally(self, url: str) -> base.Tally:
        """Count the jobs removed from the queue, and the results."""
        return await databases.tally(url, _TALLY)


CONTESTANTS = {
    "pgmq": Pgmq("pgmq", _ARCHIVE),
    "pgmq-delete": Pgmq("pgmq-delete", _DELETE),
}
