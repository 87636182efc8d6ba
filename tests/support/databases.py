"""Databases for tests: one server per test run, one cloned database per test."""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from pagewarden.local import bootstrap, cluster, migrations, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

BARE = "template_bare"
MIGRATED = "template_migrated"

# Any number will do, as long as it is always the same one.
_LOCK_KEY = 7_240_003


@dataclass(frozen=True, slots=True)
class Database:
    """A database of one test's own; connections made here are closed when the test ends."""

    server: server.LocalServer
    name: str
    _connections: list[psycopg.AsyncConnection] = field(default_factory=list)

    def url(self, role: str = "postgres") -> str:
        """Address over the socket."""
        return self.server.url(role, self.name)

    def tcp_url(self, role: str = "postgres") -> str:
        """Address over 127.0.0.1."""
        return self.server.tcp_url(role, self.name)

    async def connect(
        self, role: str = "postgres", *, claims: Mapping[str, Any] | None = None
    ) -> psycopg.AsyncConnection:
        """Connect in autocommit mode, with these claims for the whole session."""
        conn = await psycopg.AsyncConnection.connect(self.url(role), autocommit=True)
        self._connections.append(conn)
        if claims is not None:
            await _set_claims(conn, claims, local=False)
        return conn

    async def create_user(self, email: str | None = None) -> uuid.UUID:
        """Add somebody who could sign in."""
        user = uuid.uuid4()
        async with await psycopg.AsyncConnection.connect(self.url()) as conn:
            await conn.execute(
                "insert into auth.users (id, email) values (%s, %s)",
                (user, email or f"{user}@example.org"),
            )
        return user

    @contextlib.asynccontextmanager
    async def acting_as(self, who: uuid.UUID | str) -> AsyncIterator[psycopg.AsyncConnection]:
        """Open a transaction as a signed-in user (an id), as "anon" or as "service_role".

        Role and claims are set the way PostgREST sets them.
        """
        role = who if isinstance(who, str) else "authenticated"
        claims = {"role": role} | ({} if isinstance(who, str) else {"sub": str(who)})
        url = self.url("authenticator")
        async with (
            await psycopg.AsyncConnection.connect(url, autocommit=True) as conn,
            conn.transaction(),
        ):
            await conn.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
            await _set_claims(conn, claims, local=True)
            yield conn

    @contextlib.asynccontextmanager
    async def cut_off(self) -> AsyncIterator[None]:
        """End all connections, and let nobody in as long as the block lasts."""
        end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        async with superuser(self.server) as conn:
            await conn.execute(_named("alter database {} allow_connections false", self.name))
            try:
                await conn.execute(end, (self.name,))
                yield
            finally:
                await conn.execute(_named("alter database {} allow_connections true", self.name))

    async def close(self) -> None:
        """Close what connect() opened."""
        for conn in self._connections:
            await conn.close()


async def _set_claims(
    conn: psycopg.AsyncConnection, claims: Mapping[str, Any], *, local: bool
) -> None:
    query = "select set_config('request.jwt.claims', %s, %s)"
    await conn.execute(query, (json.dumps(claims), local))


@contextlib.asynccontextmanager
async def cloned(local: server.LocalServer, template: str) -> AsyncIterator[Database]:
    """Make a copy of the template, and drop it afterwards."""
    database = Database(local, f"test_{uuid.uuid4().hex[:16]}")
    await clone(local, template, database.name)
    try:
        yield database
    finally:
        await database.close()
        await drop(local, database.name)


async def prepare(local: server.LocalServer, template: str) -> None:
    """Make a template unless another process of this test run has made it already."""
    async with superuser(local) as conn:
        await conn.execute("select pg_advisory_lock(%s)", (_LOCK_KEY,))
        found = await conn.execute("select from pg_database where datname = %s", (template,))
        if await found.fetchone() is None:
            await _build(local, conn, template)


async def _build(local: server.LocalServer, conn: psycopg.AsyncConnection, template: str) -> None:
    unfinished = f"{template}_unfinished"
    await conn.execute(_named("drop database if exists {} with (force)", unfinished))
    if template == BARE:
        await conn.execute(_named("create database {}", unfinished))
        url = local.url(cluster.SUPERUSER, unfinished)
        await bootstrap.bootstrap(url, password=local.password)
    else:
        await clone(local, BARE, unfinished)
        await migrations.migrate(local.url("postgres", unfinished))
    await conn.execute(_named("alter database {} rename to {}", unfinished, template))


async def clone(local: server.LocalServer, template: str, name: str) -> None:
    """Copy a template."""
    # Files are copied in a third of the time in which blocks are written to the log one by one.
    copy = "create database {} template {} strategy file_copy owner postgres"
    async with superuser(local) as conn:
        await conn.execute(_named(copy, name, template))
    async with superuser(local, name) as conn:
        await bootstrap.set_database_defaults(conn)


async def drop(local: server.LocalServer, name: str) -> None:
    """Drop a database, whoever is connected to it."""
    async with superuser(local) as conn:
        await conn.execute(_named("drop database {} with (force)", name))


@contextlib.asynccontextmanager
async def superuser(
    local: server.LocalServer, name: str = "postgres"
) -> AsyncIterator[psycopg.AsyncConnection]:
    """Connect as superuser, in autocommit mode."""
    url = local.url(cluster.SUPERUSER, name)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        yield conn


def _named(statement: str, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))
