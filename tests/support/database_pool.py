"""Migrated databases that tests share one after another: clearing is faster than cloning."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from pagewarden.local.server import LocalServer

# A table with more deleted rows is slow to scan, so the database is dropped.
MAX_DELETED_ROWS = 20_000

_TABLES = """
    select format('%I.%I', n.nspname, c.relname)
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind = 'r' and c.relpersistence <> 't'
      and n.nspname not in ('pg_catalog', 'information_schema')
    order by 1
"""
_COLUMNS = """
    select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
    where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''
"""
# Every change of the schema or of rights changes the xmin of a row in these catalogs.
_SCHEMA = "select " + ", ".join(
    f"(select count(*) || ':' || coalesce(sum(xmin::text::bigint), 0) from {catalog})"
    for catalog in (
        "pg_attribute", "pg_class", "pg_constraint", "pg_default_acl", "pg_description",
        "pg_extension", "pg_namespace", "pg_policy", "pg_proc", "pg_rewrite", "pg_trigger",
        "pg_type",
    )
)  # fmt: skip
_DATABASE = """
    select datallowconn, (select array_agg(s.setconfig order by s.setrole)
      from pg_db_role_setting as s where s.setdatabase = d.oid)
    from pg_database as d where datname = current_database()
"""
_END_SESSIONS = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
      and backend_type = 'client backend'
"""
_RESET_SEQUENCES = """
    select setval(format('%%I.%%I', s.schemaname, s.sequencename)::regclass,
      coalesce(o.last_value, s.start_value), o.last_value is not null)
    from pg_sequences as s
    join unnest(%s::text[], %s::bigint[]) as o (name, last_value)
      on o.name = format('%%I.%%I', s.schemaname, s.sequencename)
    where s.last_value is distinct from o.last_value
"""
# Deleting is fast because triggers and foreign keys are disabled.
_EMPTY = """
    do $$
    declare
      v_table text;
      v_rows bigint;
      v_max bigint := 0;
    begin
      for v_table in %s loop
        execute 'delete from ' || v_table;
        get diagnostics v_rows = row_count;
        v_max := greatest(v_max, v_rows);
      end loop;
      perform set_config('pagewarden_tests.deleted', v_max::text, false);
    end;
    $$
"""


@dataclass(slots=True)
class Pool:
    """Lends databases; each process of a test run has its own pool."""

    server: LocalServer
    template: str
    _idle: list[_Reusable] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def borrow(self, *, fresh: bool = False) -> AsyncIterator[databases.Database]:
        """Lend a newly migrated database; a fresh one has no planner statistics of other tests."""
        reuse = self._idle and not fresh
        reusable = self._idle.pop() if reuse else await self._create()
        database = databases.Database(self.server, reusable.name)
        try:
            yield database
        finally:
            await database.close()
            if not fresh and await self._reset(reusable):
                self._idle.append(reusable)
            else:
                await databases.drop(self.server, reusable.name)

    async def aclose(self) -> None:
        """Drop every database."""
        while self._idle:
            await databases.drop(self.server, self._idle.pop().name)

    async def _create(self) -> _Reusable:
        name = f"test_{uuid.uuid4().hex[:16]}"
        await databases.clone(self.server, self.template, name)
        async with databases.connect_superuser(self.server, name) as conn:
            return await _Reusable.from_database(conn, name)

    async def _reset(self, reusable: _Reusable) -> bool:
        async with databases.connect_superuser(self.server, reusable.name) as conn:
            return await reusable.reset(conn)


@dataclass(frozen=True, slots=True)
class _Reusable:
    """A database, and its initial state: rows by table, sequences, schema."""

    name: str
    rows: dict[str, bytes]
    sequences: dict[str, int | None]
    schema: object

    @classmethod
    async def from_database(cls, conn: psycopg.AsyncConnection, name: str) -> _Reusable:
        """Record the state of a newly migrated database."""
        tables = [table for (table,) in await (await conn.execute(_TABLES)).fetchall()]
        rows = {table: await _copy_out(conn, table) for table in tables}
        cursor = await conn.execute(
            "select format('%I.%I', schemaname, sequencename), last_value from pg_sequences"
        )
        sequences: dict[str, int | None] = dict(await cursor.fetchall())
        return cls(name, {t: r for t, r in rows.items() if r}, sequences, await _read_schema(conn))

    async def reset(self, conn: psycopg.AsyncConnection) -> bool:
        """Restore the initial state; return False if a new database would be faster."""
        await conn.execute(_END_SESSIONS)
        if await _read_schema(conn) != self.schema:
            return False
        await conn.execute("set session_replication_role = replica")
        await conn.execute((_EMPTY % _TABLES).encode())
        for table, rows in self.rows.items():
            await _copy_in(conn, table, rows)
        await conn.execute(_RESET_SEQUENCES, (list(self.sequences), list(self.sequences.values())))
        cursor = await conn.execute("select current_setting('pagewarden_tests.deleted')::bigint")
        (deleted,) = await cursor.fetchone() or (0,)
        return bool(deleted < MAX_DELETED_ROWS)


async def _read_schema(conn: psycopg.AsyncConnection) -> object:
    return [await (await conn.execute(query)).fetchone() for query in (_SCHEMA, _DATABASE)]


async def _list_columns(conn: psycopg.AsyncConnection, table: str) -> str:
    (columns,) = await (await conn.execute(_COLUMNS, (table,))).fetchone() or ("",)
    return str(columns)


async def _copy_out(conn: psycopg.AsyncConnection, table: str) -> bytes:
    query = f"copy (select {await _list_columns(conn, table)} from {table}) to stdout"
    async with conn.cursor() as cursor, cursor.copy(query.encode()) as copy:
        return b"".join([bytes(data) async for data in copy])


async def _copy_in(conn: psycopg.AsyncConnection, table: str, rows: bytes) -> None:
    query = f"copy {table} ({await _list_columns(conn, table)}) from stdin"
    async with conn.cursor() as cursor, cursor.copy(query.encode()) as copy:
        await copy.write(rows)
