"""Pagewarden's own queue, through the functions its workers call."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.queue import databases
from benchmarks.queue.contestants import base
from pagewarden.local import bootstrap, migrations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


LOCK_SECONDS = 60

# The rights of a producer and of a worker, as in production.
_AS_SERVICE = """
set role service_role;
select set_config('request.jwt.claims', '{"role": "service_role"}', false);
"""
AS_WORKER = "set role pagewarden_worker"

_CREATE_CASE = "select public.create_case($1, 'client')"
_ADD = "select id::text from public.add_documents($1, $2::jsonb, 'image') as id"
CLAIM = """
select id, lock_token, name, dropbox_path, null as refusal
from public.claim_documents($1, array['image'], $2, $3)
"""
_COMPLETE = """
select id, (claimed).lock_token, (claimed).name, (claimed).dropbox_path, refusal
from public.complete_documents(
  $1, $2, $3::jsonb[], p_engine => 'bench', p_version => '1',
  p_worker_id => $4, p_lanes => array['image'], p_claim_limit => $5, p_lock_timeout => $6
)
"""

_TALLY = """
select
  (select count(*) from public.documents where ocr_status = 'completed'),
  count(*), count(distinct document_id)
from public.ocr_processing_logs
"""


@dataclass(frozen=True, slots=True)
class Ours:
    """Documents of lane image, one case for each producer."""

    name: str

    async def prepare(self, url: str) -> None:
        """Do what pagewarden migrate does."""
        await bootstrap.bootstrap(url)
        await migrations.migrate(url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Take in documents with add_documents."""
        numbers = itertools.count()
        async with databases.connect_asyncpg(url) as connection:
            await connection.execute(_AS_SERVICE)
            ((case,),) = await connection.fetch(_CREATE_CASE, f"Bench {uuid.uuid4()}")

            async def enqueue(count: int) -> Sequence[base.JobId]:
                documents = json.dumps([_document(next(numbers)) for _ in range(count)])
                return [row[0] for row in await connection.fetch(_ADD, case, documents)]

            yield enqueue

    async def work(self, url: str, batch: int, done: base.Done, stop: asyncio.Event) -> None:
        """Claim a batch, then complete it and claim the next, until none is left."""
        worker = f"bench-{uuid.uuid4()}"
        async with databases.connect_asyncpg(url) as connection:
            await connection.execute(AS_WORKER)
            while not stop.is_set():
                claimed = await connection.fetch(CLAIM, worker, batch, LOCK_SECONDS)
                while claimed:
                    finished = [row[0] for row in claimed]
                    tokens = [row[1] for row in claimed]
                    results = [base.handled(str(document)) for document in finished]
                    claimed = await connection.fetch(
                        _COMPLETE, finished, tokens, results, worker, batch, LOCK_SECONDS
                    )
                    _require_taken(claimed)
                    done([str(document) for document in finished])
                await asyncio.sleep(base.IDLE_SECONDS)

    async def tally(self, url: str) -> base.Tally:
        """Count the documents that are completed, and the results."""
        return await databases.tally(url, _TALLY)


def _document(number: int) -> dict[str, object]:
    path = base.payload(number)["path"]
    return {"name": f"scan-{number:08}.png", "dropbox_path": path}


def _require_taken(rows: Sequence[Sequence[object]]) -> None:
    for row in rows:
        if row[-1] is not None:
            raise base.RoundFailedError(f"a document was not completed: {row}")


CONTESTANTS = {"pagewarden": Ours("pagewarden")}
