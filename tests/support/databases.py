"""Databases for tests: one server per test run, one cloned database per test."""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from pagewarden.local import bootstrap, cluster, migrations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.local.server import LocalServer

BARE = "template_bare"
MIGRATED = "template_migrated"

# An arbitrary constant.
_LOCK_KEY = 7_240_003


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a test; connections opened here are closed when the test ends."""

    server: LocalServer
    name: str
    _connections: list[psycopg.AsyncConnection] = field(default_factory=list)

    def url(self, role: str = "postgres") -> str:
        """Return the URL over the Unix socket."""
        return self.server.url(role, self.name)

    def tcp_url(self, role: str = "postgres") -> str:
        """Return the URL over 127.0.0.1."""
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
        """Add a user account."""
        user = uuid.uuid4()
        async with await psycopg.AsyncConnection.connect(self.url()) as conn:
            await conn.execute(
                "insert into auth.users (id, email) values (%s, %s)",
                (user, email or f"{user}@example.org"),
            )
        return user

    @contextlib.asynccontextmanager
    async def acting_as(self, user: uuid.UUID | str) -> AsyncIterator[psycopg.AsyncConnection]:
        """Open a transaction as a signed-in user (an id), as "anon" or as "service_role".

        Role and claims are set the way PostgREST sets them.
        """
        role = user if isinstance(user, str) else "authenticated"
        claims = {"role": role} | ({} if isinstance(user, str) else {"sub": str(user)})
        url = self.url("authenticator")
        async with (
            await psycopg.AsyncConnection.connect(url, autocommit=True) as conn,
            conn.transaction(),
        ):
            await conn.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
            await _set_claims(conn, claims, local=True)
            yield conn

    @contextlib.asynccontextmanager
    async def refuse_connections(self) -> AsyncIterator[None]:
        """End all connections, and refuse new ones until the end of the block."""
        end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
        async with connect_superuser(self.server) as conn:
            await conn.execute(
                _format_names("alter database {} allow_connections false", self.name)
            )
            try:
                await conn.execute(end, (self.name,))
                yield
            finally:
                await conn.execute(
                    _format_names("alter database {} allow_connections true", self.name)
                )

    async def close(self) -> None:
        """Close the connections opened by `connect`."""
        for conn in self._connections:
            await conn.close()


async def _set_claims(
    conn: psycopg.AsyncConnection, claims: Mapping[str, Any], *, local: bool
) -> None:
    query = "select set_config('request.jwt.claims', %s, %s)"
    await conn.execute(query, (json.dumps(claims), local))


@contextlib.asynccontextmanager
async def open_clone(local: LocalServer, template: str) -> AsyncIterator[Database]:
    """Clone a template; drop the clone at the end."""
    database = Database(local, f"test_{uuid.uuid4().hex[:16]}")
    await clone(local, template, database.name)
    try:
        yield database
    finally:
        await database.close()
        await drop(local, database.name)


async def prepare_template(local: LocalServer, template: str) -> None:
    """Create a template unless another process of this test run has already created it."""
    async with connect_superuser(local) as conn:
        await conn.execute("select pg_advisory_lock(%s)", (_LOCK_KEY,))
        cursor = await conn.execute("select from pg_database where datname = %s", (template,))
        if await cursor.fetchone() is None:
            await _create_template(local, conn, template)


async def _create_template(
    local: LocalServer, conn: psycopg.AsyncConnection, template: str
) -> None:
    unfinished = f"{template}_unfinished"
    await conn.execute(_format_names("drop database if exists {} with (force)", unfinished))
    if template == BARE:
        await conn.execute(_format_names("create database {}", unfinished))
        url = local.url(cluster.SUPERUSER, unfinished)
        await bootstrap.bootstrap(url, password=local.password)
    else:
        await clone(local, BARE, unfinished)
        await migrations.migrate(local.url("postgres", unfinished))
    await conn.execute(_format_names("alter database {} rename to {}", unfinished, template))


async def clone(local: LocalServer, template: str, name: str) -> None:
    """Create a database as a copy of a template."""
    # Copying files takes a third of the time of the default strategy, which logs every block.
    copy = "create database {} template {} strategy file_copy owner postgres"
    async with connect_superuser(local) as conn:
        await conn.execute(_format_names(copy, name, template))
    async with connect_superuser(local, name) as conn:
        await bootstrap.set_database_defaults(conn)


async def drop(local: LocalServer, name: str) -> None:
    """Drop a database, ending all connections to it."""
    async with connect_superuser(local) as conn:
        await conn.execute(_format_names("drop database {} with (force)", name))


@contextlib.asynccontextmanager
async def connect_superuser(
    local: LocalServer, name: str = "postgres"
) -> AsyncIterator[psycopg.AsyncConnection]:
    """Connect as the superuser, in autocommit mode."""
    url = local.url(cluster.SUPERUSER, name)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        yield conn


def _format_names(statement: str, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))
