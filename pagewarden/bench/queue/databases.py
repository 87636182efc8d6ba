"""Databases of the benchmark's own: made fresh for every round, dropped at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import conninfo, sql

from pagewarden import errors
from pagewarden.bench.queue import contestant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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


async def tally(url: str, query: LiteralString) -> contestant.Tally:
    """Count with a query that returns completed jobs, results, and jobs with a result."""
    async with await connect(url) as connection:
        row = await (await connection.execute(query)).fetchone()
    return contestant.Tally(*(row or (0, 0, 0)))


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
