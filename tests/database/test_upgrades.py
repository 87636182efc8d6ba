"""A database full of data is brought up to date while workers run."""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import TYPE_CHECKING

from pagewarden import database as gateways
from pagewarden.local import migrations
from tests.database import factories, queries
from tests.documents import readers
from tests.support import polling

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support import databases

# What a later version could do: a column, an index, a function with another body, changed rows.
NEXT = """
alter table public.documents add column shelf text;
comment on column public.documents.shelf is 'Where the paper is.';
create index documents_shelf_idx on public.documents (shelf) where shelf is not null;
create or replace function private.queued_status(p_lane text)
returns text language sql immutable security invoker set search_path = ''
as $$ select case when p_lane = 'pdf' then 'queued_for_pdf' else 'queued' end $$;
update public.lanes set description = description || '.';
"""

# What the data is, and must still be afterwards.
KEPT = """
    select
      (select jsonb_agg(to_jsonb(d) - '{version,shelf}'::text[] order by d.id) from documents as d
       where d.name like 'file-%%') as documents,
      (select jsonb_agg(to_jsonb(p) order by p.run_id, p.page_number) from ocr_pages as p
       join documents as d on d.id = p.document_id where d.name like 'file-%%') as pages,
      (select jsonb_agg(to_jsonb(l) order by l.id) from ocr_dead_letter as l) as letters,
      (select jsonb_agg(to_jsonb(t) order by t.id) from tasks as t) as tasks,
      (select jsonb_agg(to_jsonb(c)) from page_corrections as c) as corrections,
      (select jsonb_agg(to_jsonb(w) - 'job_id' order by w.id) from webhooks as w) as webhooks,
      (select jsonb_agg(to_jsonb(a) order by a.id) from hac_acts as a) as acts
"""
STEADILY = "select count(*) from documents where name like 'steady-%%' and ocr_status = 'completed'"


def _folder(tmp_path: Path, name: str, text: str) -> Path:
    """Have the migrations of this version and one that comes after them in a folder."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.list_migrations()[0].path.parent, folder)
    (folder / f"{name}.sql").write_text(text)
    return folder


async def fill(factory: factories.Factory) -> None:
    """Have documents in every state, with all that hangs on them."""
    editor = await factory.user()
    case = await factory.case(editor=editor)
    await factory.queued(case, lane="pdf")
    await factory.queued(case, lane="check")
    await factory.queued(case, lane=None)
    await factory.awaiting_file(case)
    claim = await factory.claimed(case, lane="pdf")
    held = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
    await factory.call("extend_document_lock", **held, p_lock_timeout=3600)
    completed = await factory.completed(case)
    key = {"p_document_id": completed, "p_page_number": 1, "p_base_version": 0}
    await factory.call("correct_page", **key, p_text="better")
    await factory.call("request_webhook", p_document_id=completed, p_url="https://example.org/")
    await factory.dead_letter(case)
    manual = await factory.dead_letter(case)
    await factory.call("resolve_dead_letter", p_dlq_id=manual.dlq_id, p_action="manual")
    deleted = await factory.completed(case)
    await factory.call("delete_document", p_document_id=deleted)
    await factory.task()


async def _feed(factory: factories.Factory, stop: asyncio.Event) -> int:
    """Upload documents of lane image, as the previous release does, until told to stop."""
    case, count = await factory.case(), 0
    while not stop.is_set():
        await factory.queued(case, p_document_name=f"steady-{count}")
        count += 1
        await asyncio.sleep(0.005)
    return count


async def _read(factory: factories.Factory) -> int:
    return int((await queries.one(factory.conn, STEADILY))["count"])


async def _until_read(factory: factories.Factory, count: int) -> None:
    """Wait until so many of the documents that keep coming are read."""

    async def is_read() -> bool:
        return await _read(factory) >= count

    await polling.wait_until(is_read, seconds=60)


async def test_data_survives_a_migration_while_workers_run(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """Uploads and workers never stop, and nothing impossible comes of it."""
    await migrations.migrate(bare_database.url())
    factory = await factories.Factory.of(bare_database)
    await fill(factory)
    before = await queries.one(factory.conn, KEPT)
    stop_feeding, stop = asyncio.Event(), asyncio.Event()
    async with await gateways.connect_direct(bare_database.url(), connections=4) as link:
        desk = readers.Desk(link, factory)
        workers = [
            desk.worker(readers.Recorder(), worker_id=f"w{number}", idle_seconds=0.02)
            for number in range(2)
        ]
        working = [asyncio.create_task(worker.run(stop)) for worker in workers]
        source = await factories.Factory.of(bare_database)
        feeding = asyncio.create_task(_feed(source, stop_feeding))
        await _until_read(factory, 4)
        folder = _folder(tmp_path, "29991231000000_next", NEXT)
        done = await migrations.migrate(bare_database.url(), folder=folder)
        assert done == ["29991231000000_next"]
        await _until_read(factory, await _read(factory) + 4)
        stop_feeding.set()
        await _until_read(factory, await feeding)
        stop.set()
        await asyncio.gather(*working)
    assert await queries.one(factory.conn, KEPT) == before
    assert await queries.violations(factory.conn) == []
    assert await factory.check_job()


SLOW = "create table public.half (id int); select pg_sleep(3600); select 1;"


async def _killed_half_way(database: databases.Database, folder: Path) -> None:
    """Migrate in another program, and kill it while it sleeps in the middle of a file."""
    program = (
        "import asyncio, pathlib, sys\n"
        "from pagewarden.local import migrations\n"
        "asyncio.run(migrations.migrate(sys.argv[1], folder=pathlib.Path(sys.argv[2])))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, database.url(), str(folder)
    )
    conn = await database.connect("supabase_admin")
    others = (
        "from pg_stat_activity where query ~ 'sleep.3600' and pid <> pg_backend_pid() "
        "and datname = current_database()"
    )

    async def is_half_way() -> bool:
        return await queries.rows(conn, f"select 1 {others}".encode()) != []

    await polling.wait_until(is_half_way, seconds=60)
    process.kill()
    await process.wait()
    await conn.execute(f"select pg_terminate_backend(pid) {others}".encode())


async def test_a_migration_that_is_killed_half_way_is_undone_and_done_again(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """The next run begins where the last whole file ended."""
    await migrations.migrate(bare_database.url())
    folder = _folder(tmp_path, "29991231000000_slow", SLOW)

    await _killed_half_way(bare_database, folder)

    conn = await bare_database.connect()
    assert await queries.one(conn, "select to_regclass('public.half') as half") == {"half": None}
    (folder / "29991231000000_slow.sql").write_text("create table public.half (id int);")
    assert await migrations.migrate(bare_database.url(), folder=folder) == ["29991231000000_slow"]


async def test_a_first_migration_that_is_killed_leaves_nothing(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """All files are one transaction then; the next run begins from the start."""
    folder = _folder(tmp_path, "29991231000000_slow", SLOW)

    await _killed_half_way(bare_database, folder)

    conn = await bare_database.connect()
    left = "nspname in ('private', 'supabase_migrations')"
    assert await queries.rows(conn, f"select from pg_namespace where {left}".encode()) == []
    assert await migrations.migrate(bare_database.url()) == [
        f.label for f in migrations.list_migrations()
    ]
