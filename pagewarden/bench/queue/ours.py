"""Pagewarden's own queue, through the functions its workers call."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.bench.queue import contestant, databases, driver
from pagewarden.local import bootstrap, migrations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

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
select to_jsonb(d)::text from public.claim_documents($1, array['image'], $2, $3) as d
"""
_COMPLETE = "select public.complete_documents($1::jsonb, $2, array['image'], $3, $4)::text"

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
    async def producer(self, url: str) -> AsyncIterator[contestant.Enqueue]:
        """Take in documents with add_documents."""
        numbers = itertools.count()
        async with driver.connect(url) as connection:
            await connection.execute(_AS_SERVICE)
            ((case,),) = await connection.fetch(_CREATE_CASE, f"Bench {uuid.uuid4()}")

            async def enqueue(count: int) -> Sequence[contestant.JobId]:
                documents = json.dumps([_document(next(numbers)) for _ in range(count)])
                return [row[0] for row in await connection.fetch(_ADD, case, documents)]

            yield enqueue

    async def work(self, url: str, batch: int, done: contestant.Done, stop: asyncio.Event) -> None:
        """Claim a batch, then complete it and claim the next, until none is left."""
        worker = f"bench-{uuid.uuid4()}"
        async with driver.connect(url) as connection:
            await connection.execute(AS_WORKER)
            while not stop.is_set():
                rows = await connection.fetch(CLAIM, worker, batch, LOCK_SECONDS)
                claimed = [json.loads(row[0]) for row in rows]
                while claimed:
                    results = json.dumps([_result(document) for document in claimed])
                    ((text,),) = await connection.fetch(
                        _COMPLETE, results, worker, batch, LOCK_SECONDS
                    )
                    answer = json.loads(text)
                    done(_completed(answer))
                    claimed = answer["claimed"]
                await asyncio.sleep(contestant.IDLE_SECONDS)

    async def tally(self, url: str) -> contestant.Tally:
        """Count the documents that are completed, and the results."""
        return await databases.tally(url, _TALLY)


def _document(number: int) -> dict[str, object]:
    path = contestant.payload(number)["path"]
    return {"name": f"scan-{number:08}.png", "dropbox_path": path}


def _result(document: Mapping[str, str]) -> dict[str, object]:
    return {
        "document_id": document["id"],
        "lock_token": document["lock_token"],
        "ocr_data": contestant.handle(document["id"]),
        "confidence": 0.97,
        "processing_time_ms": 1,
        "engine": "bench",
        "version": "1",
    }


def _completed(answer: Mapping[str, Sequence[Mapping[str, str]]]) -> list[contestant.JobId]:
    for result in answer["results"]:
        if not result["success"]:
            raise contestant.RoundFailedError(f"a document was not completed: {result}")
    return [result["document_id"] for result in answer["results"]]


CONTESTANTS = {"pagewarden": Ours("pagewarden")}
