"""Pagewarden's queue, through the SQL functions that its workers call."""

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

# The roles of producers and workers, as in production.
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
class Pagewarden:
    """The queue of documents: lane `image`, one case per producer."""

    name: str

    async def prepare(self, url: str) -> None:
        """Bootstrap and migrate the database, as `pagewarden migrate` does."""
        await bootstrap.bootstrap(url)
        await migrations.migrate(url)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Add documents with `add_documents`."""
        numbers = itertools.count()
        async with databases.connect_asyncpg(url) as connection:
            await connection.execute(_AS_SERVICE)
            ((case,),) = await connection.fetch(_CREATE_CASE, f"Bench {uuid.uuid4()}")

            async def enqueue(count: int) -> Sequence[base.JobId]:
                documents = json.dumps([_make_document(next(numbers)) for _ in range(count)])
                return [row[0] for row in await connection.fetch(_ADD, case, documents)]

            yield enqueue

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Claim batches; each completion claims the next batch."""
        worker = f"bench-{uuid.uuid4()}"
        async with databases.connect_asyncpg(url) as connection:
            await connection.execute(AS_WORKER)
            while not stop.is_set():
                claimed = await connection.fetch(CLAIM, worker, batch, LOCK_SECONDS)
                while claimed:
                    finished = [row[0] for row in claimed]
                    tokens = [row[1] for row in claimed]
                    results = [base.handle_as_json(str(document)) for document in finished]
                    claimed = await connection.fetch(
                        _COMPLETE, finished, tokens, results, worker, batch, LOCK_SECONDS
                    )
                    _require_completed(claimed)
                    record_completed([str(document) for document in finished])
                await asyncio.sleep(base.IDLE_SECONDS)

    async def tally(self, url: str) -> base.Tally:
        """Count completed documents and results."""
        return await databases.tally(url, _TALLY)


def _make_document(number: int) -> dict[str, object]:
    path = base.make_payload(number)["path"]
    return {"name": f"scan-{number:08}.png", "dropbox_path": path}


def _require_completed(rows: Sequence[Sequence[object]]) -> None:
    for row in rows:
        if row[-1] is not None:
            raise base.RoundFailedError(f"a document was not completed: {row}")


CONTESTANTS = {"pagewarden": Pagewarden("pagewarden")}
