"""A dump that was taken while everything runs can be restored, and is sound."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from psycopg import sql

from pagewarden.local import cluster
from tests.database import factories, queries
from tests.database.test_upgrades import fill
from tests.support import databases as support

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.local import server

COUNTS = """
    select (select count(*) from documents) as documents, (select count(*) from ocr_pages) as pages,
      (select count(*) from hac_acts) as acts, (select count(*) from auth.users) as users,
      (select max(version) from supabase_migrations.schema_migrations) as version
"""


async def _run(*command: str | Path) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()


async def test_a_dump_is_restored_and_work_goes_on(
    database: support.Database, local_server: server.LocalServer, tmp_path: Path
) -> None:
    """As the handbook says: pg_dump, pg_restore; what was in hand is taken back by the sweep."""
    factory = await factories.Factory.of(database)
    await fill(factory)
    conn = await database.connect(cluster.SUPERUSER)
    before = await queries.one(conn, COUNTS)
    binaries, dump = local_server.cluster.binaries, tmp_path / "pagewarden.dump"
    url = database.url(cluster.SUPERUSER)
    await _run(binaries.path("pg_dump"), "--format=custom", "--no-owner", f"--file={dump}", url)

    restored = support.Database(local_server, f"{database.name}_restored")
    name = sql.Identifier(restored.name)
    await conn.execute(sql.SQL("create database {} template template0").format(name))
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(
            conn.execute, sql.SQL("drop database {} with (force)").format(name)
        )
        stack.push_async_callback(restored.close)
        target = restored.url(cluster.SUPERUSER)
        await _run(binaries.path("pg_restore"), "--no-owner", f"--dbname={target}", dump)
        again = await factories.Factory.of(restored)
        assert await queries.one(await restored.connect(cluster.SUPERUSER), COUNTS) == before
        assert await queries.violations(again.conn) == []
        held = "select count(*) from documents where ocr_status = 'processing'"
        assert (await queries.one(again.conn, held))["count"] == 1
        sweep = "select public.sweep_documents(now() + make_interval(secs => %s))"
        for seconds in (3700, 7400):  # after an outage it waits one lock period, here an hour
            await again.conn.execute(sweep, (seconds,))
        assert (await queries.one(again.conn, held))["count"] == 0
        assert await again.completed()
        assert await queries.violations(again.conn) == []
