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

# Results and completion in one transaction and one round trip; the next read is a call of its own,
# as pgmq documents it. All three in one statement was 8 % quicker at batch 1 and 13 % at 10, but
# two workers doing so sometimes wait for each other until Postgres stops one (deadlock detected).
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
    """A queue of pgmq; complete is the statement that finishes a batch."""

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
        """Send with send_batch."""
        numbers = itertools.count()
        async with databases.connect_asyncpg(url) as connection:

            async def enqueue(count: int) -> Sequence[base.JobId]:
                messages = [json.dumps(base.payload(next(numbers))) for _ in range(count)]
                return [row[0] for row in await connection.fetch(_SEND, messages)]

            yield enqueue

    async def work(self, url: str, batch: int, done: base.Done, stop: asyncio.Event) -> None:
        """Read a batch, complete it, read the next, and wait a moment when there is none."""
        async with databases.connect_asyncpg(url) as connection:
            while not stop.is_set():
                rows = await connection.fetch(_READ, _VISIBILITY_SECONDS, batch)
                if rows:
                    jobs: list[int] = [row[0] for row in rows]
                    texts = [base.handled(job) for job in jobs]
                    await connection.fetch(self.complete, jobs, texts)
                    done(jobs)
                else:
                    await asyncio.sleep(base.IDLE_SECONDS)

    async def tally(self, url: str) -> base.Tally:
        """Count what left the queue, and the results."""
        return await databases.tally(url, _TALLY)


CONTESTANTS = {
    "pgmq": Pgmq("pgmq", _ARCHIVE),
    "pgmq-delete": Pgmq("pgmq-delete", _DELETE),
}
