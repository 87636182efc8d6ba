"""Temporary databases of the benchmark, the asyncpg driver, and the result table of the peers."""

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

# The settings that determine the cost of a commit; printed with every run.
_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")


@dataclass(frozen=True, slots=True)
class Server:
    """Version and settings of the server that all contestants share."""

    version: str
    settings: dict[str, str]

    @property
    def is_durable(self) -> bool:
        """Return whether an acknowledged commit survives a power failure."""
        names = ("fsync", "synchronous_commit", "full_page_writes")
        return all(self.settings[name] != "off" for name in names)


async def connect(url: str) -> psycopg.AsyncConnection:
    """Open a connection in autocommit mode."""
    try:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
    except psycopg.OperationalError as exc:
        raise errors.DatabaseUnavailable(
            f"cannot connect to the server to be measured: {exc}"
        ) from exc


def parse_parameters(url: str) -> dict[str, str]:
    """Split a connection string into its parameters."""
    return {key: str(value) for key, value in conninfo.conninfo_to_dict(url).items()}


def with_database(url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    return conninfo.make_conninfo(url, dbname=database)


async def describe_server(url: str) -> Server:
    """Return version and settings of the server."""
    async with await connect(url) as connection:
        query = "select name, current_setting(name) from pg_settings where name = any(%s)"
        rows = await (await connection.execute(query, (list(_SETTINGS),))).fetchall()
        version = connection.info.parameter_status("server_version") or "unknown"
    return Server(version=version, settings=dict(rows))


async def tally(url: str, query: LiteralString) -> base.Tally:
    """Run a query that counts completed jobs, results, and jobs with a result."""
    async with await connect(url) as connection:
        row = await (await connection.execute(query)).fetchone()
    return base.Tally(*(row or (0, 0, 0)))


async def make_template(url: str, name: str, prepare: Callable[[str], Awaitable[None]]) -> None:
    """Create and prepare a database, of which every round uses a copy."""
    database = f"{PREFIX}{name}_fresh"
    await _recreate(url, database, template="template0")
    await prepare(with_database(url, database))


async def copy_template(url: str, template: str, name: str | None = None) -> str:
    """Copy a template to a database, by default of the same name; return the URL of the copy."""
    database = f"{PREFIX}{name or template}"
    await _recreate(url, database, template=f"{PREFIX}{template}_fresh")
    return with_database(url, database)


async def drop(url: str, name: str) -> None:
    """Drop the database of this name, and its template."""
    async with await connect(url) as connection:
        for database in (f"{PREFIX}{name}", f"{PREFIX}{name}_fresh"):
            await connection.execute(_make_drop_statement(database))


async def _recreate(url: str, database: str, *, template: str) -> None:
    create = sql.SQL("create database {} template {}")
    async with await connect(url) as connection:
        await connection.execute(_make_drop_statement(database))
        await connection.execute(create.format(sql.Identifier(database), sql.Identifier(template)))
        # Otherwise a checkpoint caused by one contestant would slow down the next.
        await connection.execute("checkpoint")


def _make_drop_statement(database: str) -> sql.Composed:
    return sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(database))


# asyncpg ------------------------------------------------------------------------------------------
# The driver of every contestant that works with several.
#
# With psycopg the load generator used two to three times the CPU per job (pgmq, batches 1 to 100).
# Since it shares the machine with the server, that would be measured as a cost of the queue.


class AsyncpgConnection(Protocol):
    """The part of an asyncpg connection that we use; outside a transaction it autocommits."""

    async def fetch(self, query: str, *args: object) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows."""

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement, or several without arguments."""


@asynccontextmanager
async def connect_asyncpg(url: str) -> AsyncIterator[AsyncpgConnection]:
    """Open a connection; close it at the end."""
    connection = await _import_asyncpg().connect(**_parse_asyncpg_parameters(url))
    try:
        yield connection
    finally:
        await connection.close()


def open_asyncpg_pool(url: str) -> AbstractAsyncContextManager[Any]:
    """Open a small connection pool; close it at the end."""
    pool: AbstractAsyncContextManager[Any] = _import_asyncpg().create_pool(
        **_parse_asyncpg_parameters(url), min_size=1, max_size=2
    )
    return pool


def _import_asyncpg() -> Any:  # noqa: ANN401  # it ships no types
    """Import asyncpg on first use: most installations do not have it."""
    return importlib.import_module("asyncpg")


def _parse_asyncpg_parameters(url: str) -> dict[str, object]:
    # asyncpg does not parse the key=value connection strings of psycopg.
    names = {
        "host": "host",
        "port": "port",
        "user": "user",
        "password": "password",
        "dbname": "database",
    }
    parameters = conninfo.conninfo_to_dict(url)
    return {names[key]: value for key, value in parameters.items() if key in names}


# Results ------------------------------------------------------------------------------------------
# The results table of the peers, and a writer that commits several results together.


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
    """Create the table, whose primary key rejects a second result of a job."""
    async with connect_asyncpg(url) as connection:
        await connection.execute(_TABLE)


class ResultWriter:
    """Writes the results of concurrent handlers in one transaction.

    In some libraries a handler gets a single job and writes its own result. Without this writer,
    such a contestant would need a commit per job.
    """

    def __init__(self, connection: AsyncpgConnection, batch: int) -> None:
        self._connection = connection
        self._batch = batch
        self._waiting: asyncio.Queue[tuple[int, str, asyncio.Future[None]]] = asyncio.Queue()

    async def save(self, job: int, result: str) -> None:
        """Write a result; return after the commit."""
        saved = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((job, result, saved))
        await saved

    async def run(self) -> None:
        """Write, in each transaction, the results that arrived during the previous one."""
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
    """Open a writer with its own connection."""
    async with connect_asyncpg(url) as connection, asyncio.TaskGroup() as group:
        writer = ResultWriter(connection, batch)
        running = group.create_task(writer.run())
        yield writer
        running.cancel()
