"""Databases of the benchmark: made for every round, dropped at the end; driver and result table."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString, Protocol

import psycopg
from psycopg import conninfo, sql

from benchmarks.queue.contestants import base
from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager


PREFIX = "bench_"

# What decides how expensive a commit is; printed with every run.
_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")


@dataclass(frozen=True, slots=True)
class Server:
    """The server that all contestants share, as it describes itself."""

    version: str
    settings: dict[str, str]

    @property
    def durable(self) -> bool:
        """Whether a commit that was acknowledged survives a power cut."""
        off = ("fsync", "synchronous_commit", "full_page_writes")
        return all(self.settings[name] != "off" for name in off)


async def connect(url: str) -> psycopg.AsyncConnection:
    """Open a connection on which every statement is a transaction of its own."""
    try:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
    except psycopg.OperationalError as exc:
        raise errors.DatabaseAway(f"cannot connect to the server to be measured: {exc}") from exc


def at(url: str, database: str) -> str:
    """Point the URL at another database of the same server."""
    return conninfo.make_conninfo(url, dbname=database)


async def describe(url: str) -> Server:
    """Ask the server for its version and for what decides how expensive a commit is."""
    async with await connect(url) as connection:
        query = "select name, current_setting(name) from pg_settings where name = any(%s)"
        rows = await (await connection.execute(query, (list(_SETTINGS),))).fetchall()
        version = connection.info.parameter_status("server_version") or "unknown"
    return Server(version=version, settings=dict(rows))


async def tally(url: str, query: LiteralString) -> base.Tally:
    """Count with a query that returns completed jobs, results, and jobs with a result."""
    async with await connect(url) as connection:
        row = await (await connection.execute(query)).fetchone()
    return base.Tally(*(row or (0, 0, 0)))


async def make_template(url: str, name: str, prepare: Callable[[str], Awaitable[None]]) -> None:
    """Create a database and fill it; every round starts from a copy of it."""
    database = f"{PREFIX}{name}_fresh"
    await _recreate(url, database, template="template0")
    await prepare(at(url, database))


async def make_fresh(url: str, template: str, name: str | None = None) -> str:
    """Copy a template, under another name if one is given; returns the URL of the copy."""
    database = f"{PREFIX}{name or template}"
    await _recreate(url, database, template=f"{PREFIX}{template}_fresh")
    return at(url, database)


async def drop(url: str, name: str) -> None:
    """Drop the database of that name, and its template."""
    async with await connect(url) as connection:
        for database in (f"{PREFIX}{name}", f"{PREFIX}{name}_fresh"):
            await connection.execute(_drop(database))


async def _recreate(url: str, database: str, *, template: str) -> None:
    create = sql.SQL("create database {} template {}")
    async with await connect(url) as connection:
        await connection.execute(_drop(database))
        await connection.execute(create.format(sql.Identifier(database), sql.Identifier(template)))
        # Otherwise the checkpoint that one contestant caused falls into the time of the next.
        await connection.execute("checkpoint")


def _drop(database: str) -> sql.Composed:
    return sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database))


# asyncpg ------------------------------------------------------------------------------------------
# The driver of every contestant that leaves the choice to its user.
#
# psycopg cost the load generator two to three times the CPU per job (pgmq, batches 1 to 100); on
# a machine that the server shares, that is measured as if it were the queue's.


class AsyncpgConnection(Protocol):
    """What is used of a connection; a statement outside a transaction is one of its own."""

    async def fetch(self, query: str, *args: object) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows."""

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement, or several that take no arguments."""


@asynccontextmanager
async def connect_asyncpg(url: str) -> AsyncIterator[AsyncpgConnection]:
    """Open a connection for the time of the block."""
    connection = await _asyncpg().connect(**_asyncpg_parameters(url))
    try:
        yield connection
    finally:
        await connection.close()


def asyncpg_pool(url: str) -> AbstractAsyncContextManager[Any]:
    """Open a pool for the time of the block."""
    opened: AbstractAsyncContextManager[Any] = _asyncpg().create_pool(
        **_asyncpg_parameters(url), min_size=1, max_size=2
    )
    return opened


def _asyncpg() -> Any:  # noqa: ANN401  # it ships no types
    """Import it when it is needed: most people never install it."""
    return importlib.import_module("asyncpg")


def _asyncpg_parameters(url: str) -> dict[str, object]:
    # asyncpg reads URLs but not the key=value form that psycopg makes of them.
    names = {
        "host": "host",
        "port": "port",
        "user": "user",
        "password": "password",
        "dbname": "database",
    }
    known = conninfo.conninfo_to_dict(url)
    return {names[key]: value for key, value in known.items() if key in names}


# Results ------------------------------------------------------------------------------------------
# The table of results that every peer writes to, and a writer that shares commits.


_TABLE = """
create table results (
  job_id bigint primary key,
  result jsonb not null,
  created_at timestamptz not null default now()
)
"""

_INSERT = """
insert into results (job_id, result)
select r.job_id, r.result from unnest($1::bigint[], $2::jsonb[]) as r (job_id, result)
"""


async def create_results_table(url: str) -> None:
    """Create the table; its key refuses a second result for a job."""
    async with connect_asyncpg(url) as connection:
        await connection.execute(_TABLE)


class ResultWriter:
    """Write the results of handlers that run at the same time in one transaction.

    Libraries that hand over one job at a time leave the result to the handler. Without this,
    each would pay a commit of its own however many run at once.
    """

    def __init__(self, connection: AsyncpgConnection, batch: int) -> None:
        self._connection = connection
        self._batch = batch
        self._waiting: asyncio.Queue[tuple[int, str, asyncio.Future[None]]] = asyncio.Queue()

    async def save(self, job: int, result: str) -> None:
        """Return when the result is committed."""
        saved = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((job, result, saved))
        await saved

    async def run(self) -> None:
        """Write whatever has gathered while the last transaction was under way."""
        while True:
            rows = [await self._waiting.get()]
            while len(rows) < self._batch and not self._waiting.empty():
                rows.append(self._waiting.get_nowait())
            await self._write(rows)

    async def _write(self, rows: list[tuple[int, str, asyncio.Future[None]]]) -> None:
        jobs = [job for job, _, _ in rows]
        await self._connection.execute(_INSERT, jobs, [result for _, result, _ in rows])
        for _, _, saved in rows:
            saved.set_result(None)


@asynccontextmanager
async def open_result_writer(url: str, batch: int) -> AsyncIterator[ResultWriter]:
    """Open a writer with a connection of its own."""
    async with connect_asyncpg(url) as connection, asyncio.TaskGroup() as group:
        opened = ResultWriter(connection, batch)
        running = group.create_task(opened.run())
        yield opened
        running.cancel()
