"""A typical design of a Supabase user: a table of documents, and pgmq for delivery.

The table has the columns and indexes that searches need. Adding, claiming and completing are one
call each, so that the table and the queue are always consistent.
"""

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
# A table with statistics gets plans that use its indexes; on a table that was just empty the
# planner would scan all documents for each claim, and this design would be far slower than in use.
_NO_SCANS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")

SCHEMA = """
create extension if not exists pg_trgm;

create table cases (
  id bigint generated always as identity primary key,
  name text not null
);

create table documents (
  id uuid primary key default gen_random_uuid(),
  case_id bigint not null references cases (id),
  name text not null,
  path text not null,
  status text not null default 'queued'
    check (status in ('queued', 'processing', 'completed', 'failed')),
  attempts integer not null default 0,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  completed_at timestamptz
);
create index on documents (case_id, created_at desc);
create index on documents (status, created_at);
create index on documents using gin (name gin_trgm_ops);

create table ocr_results (
  document_id uuid primary key references documents (id) on delete cascade,
  result jsonb not null,
  created_at timestamptz not null default now()
);

insert into cases (name) values ('Bench');
select pgmq.create('documents');

-- Not one statement: pgmq.read would see messages that were committed after it began, and the
-- update would not see their documents, which would then wait for the visibility timeout.
create function claim_documents(seconds integer, quantity integer)
returns table (message_id bigint, document_id text, name text, path text)
language plpgsql as $$
declare
  messages pgmq.message_record[];
begin
  select array_agg(m) into messages from pgmq.read('documents', seconds, quantity) as m;
  return query
    update documents as d
    set status = 'processing', started_at = now(), attempts = d.attempts + 1
    from unnest(messages) as m
    where d.id = (m.message ->> 'document_id')::uuid
    returning m.msg_id, d.id::text, d.name, d.path;
end;
$$;
"""

ADD = """
with added as (
  insert into documents (case_id, name, path)
  select 1, file ->> 'name', file ->> 'path' from unnest($1::jsonb[]) as file
  returning id
),
messages as (
  select array_agg(jsonb_build_object('document_id', id)) as list from added
),
sent as (
  select count(*) as sent from messages, pgmq.send_batch('documents', messages.list)
)
select added.id::text from added, sent
"""

CLAIM = "select * from claim_documents($1, $2)"

COMPLETE = """
with finished as materialized (
  select r.msg_id, r.document_id, r.result
  from unnest($1::bigint[], $2::uuid[], $3::jsonb[]) as r (msg_id, document_id, result)
  join pgmq.archive('documents', $1::bigint[]) as archived on archived = r.msg_id
),
completed as (
  update documents
  set status = 'completed', completed_at = now()
  from finished
  where documents.id = finished.document_id
)
insert into ocr_results (document_id, result)
select document_id, result from finished
"""

_TALLY = """
select
  (select count(*) from documents where status = 'completed')
    - (select count(*) from pgmq.q_documents),
  count(*), count(distinct document_id)
from ocr_results
"""


@dataclass(frozen=True, slots=True)
class Supabase:
    """A table of documents, with pgmq for delivery."""

    name: str

    async def prepare(self, url: str) -> None:
        """Install pgmq's SQL and create the tables."""
        async with await databases.connect(url) as connection:
            script = install.get_embedded_install_sql()
            await connection.execute(sql.SQL(script), prepare=False)
            await connection.execute(SCHEMA, prepare=False)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncIterator[base.Enqueue]:
        """Insert documents and send their messages in one statement."""
        numbers = itertools.count()
        async with databases.connect_asyncpg(url) as connection:

            async def enqueue(count: int) -> Sequence[base.JobId]:
                files = [json.dumps(_make_file(next(numbers))) for _ in range(count)]
                return [row[0] for row in await connection.fetch(ADD, files)]

            yield enqueue

    async def work(
        self, url: str, batch: int, record_completed: base.RecordCompleted, stop: asyncio.Event
    ) -> None:
        """Claim and complete batches; poll while the queue is empty."""
        async with databases.connect_asyncpg(url) as connection:
            for parameter in _NO_SCANS:
                await connection.fetch(f"set {parameter} = off")
            while not stop.is_set():
                rows = await connection.fetch(CLAIM, _VISIBILITY_SECONDS, batch)
                if rows:
                    messages = [row[0] for row in rows]
                    documents = [str(row[1]) for row in rows]
                    results = [base.handle_as_json(document) for document in documents]
                    await connection.fetch(COMPLETE, messages, documents, results)
                    record_completed(documents)
                else:
                    await asyncio.sleep(base.IDLE_SECONDS)

    async def tally(self, url: str) -> base.Tally:
        """Count completed documents and results."""
        return await databases.tally(url, _TALLY)


def _make_file(number: int) -> dict[str, object]:
    path = base.make_payload(number)["path"]
    return {"name": f"scan-{number:08}.png", "path": path}


CONTESTANTS = {"supabase": Supabase("supabase")}
