"""The direct transport: Postgres itself, through psycopg.

A call is one round trip: role, claims and call are sent as one simple query, which Postgres runs
as one transaction. (psycopg's pipeline mode does the same at half the speed.) Settings apply to
the transaction only, so a transaction pooler may be in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.database import base, connection_pool, statements
from pagewarden.database.errors import translate_postgres_errors
from pagewarden.settings import secrets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import psycopg
    from psycopg import sql

    from pagewarden.database import arguments

DEFAULT_CONNECTIONS = 10
_UNDEFINED_FUNCTION = "42883"

_IS_SERVICE_MEMBER = """
select r is not null and pg_has_role(r, 'member') from to_regrole('service_role') as r
"""


@dataclass(frozen=True, slots=True)
class _SharedConnections:
    """What all identities share: the connections, and a cache of function signatures."""

    pool: connection_pool.ConnectionPool
    timeout: float
    calls: dict[tuple[str, frozenset[str]], statements.CallStatement] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Lend a connection for one call, with the timeout and the errors of a call."""
        with translate_postgres_errors():
            async with asyncio.timeout(self.timeout), self.pool.connection() as connection:
                yield connection


class DirectDatabase(base.Database):
    """A server, and the role and claims that each call begins with."""

    def __init__(self, server: _SharedConnections, identity: bytes) -> None:
        self._server = server
        self._make_identity = identity

    def acting_as(self, user: base.User) -> DirectDatabase:
        """Return the same database as this user, with row-level security."""
        return DirectDatabase(self._server, _make_identity("authenticated", _make_claims(user)))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._server.pool.aclose()

    async def _rpc(self, name: str, args: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        key = name, frozenset(args.values)
        is_cached = key in self._server.calls
        try:
            return await self._call(key, args)
        except errors.InvalidArgument as exc:
            if exc.sqlstate != _UNDEFINED_FUNCTION or not is_cached:
                raise
        # A migration may have changed the function since the lookup; nothing was executed yet.
        self._server.calls.pop(key, None)
        return await self._call(key, args)

    async def _call(self, key: tuple[str, frozenset[str]], args: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        async with self._server.connection() as connection:
            call = self._server.calls.get(key)
            if call is None:
                call = self._server.calls[key] = await statements.find_call(connection, *key)
            result = await self._run_statement(connection, call.statement(connection, args.encoded))
        return None if call.shape is statements.ResultShape.NOTHING else result

    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        async with self._server.connection() as connection:
            statement = statements.make_select(query).as_bytes(connection)
            rows: list[dict[str, Any]] = await self._run_statement(connection, statement)
        return rows

    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        return await self._write(statements.make_insert(change))

    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        return await self._write(statements.make_update(change))

    async def _write(self, statement: sql.Composed) -> list[dict[str, Any]]:
        async with self._server.connection() as connection:
            rows: list[dict[str, Any]] = await self._run_statement(
                connection, statement.as_bytes(connection)
            )
        return rows

    async def _run_statement(self, connection: psycopg.AsyncConnection, statement: bytes) -> Any:  # noqa: ANN401  # JSON
        cursor = await connection.execute(self._make_identity + statement)
        cursor.nextset()  # skip the result of set_config()
        row = await cursor.fetchone()
        return row[0] if row else None


async def connect_direct(
    url: str,
    *,
    connections: int = DEFAULT_CONNECTIONS,
    timeout: float = base.TIMEOUT_SECONDS,  # noqa: ASYNC109  # for each later call
) -> DirectDatabase:
    """Connect to Postgres, with a maximum number of connections and a timeout for each call.

    A login that is a member of service_role calls as service_role; any other, such as
    pagewarden_worker, calls as itself.
    """
    server = _SharedConnections(connection_pool.ConnectionPool(url, size=connections), timeout)
    async with server.connection() as connection:
        row = await (await connection.execute(_IS_SERVICE_MEMBER)).fetchone()
    if row == (True,):
        return DirectDatabase(server, _make_identity("service_role", {"role": "service_role"}))
    return DirectDatabase(
        server, statements.make_settings_statement({"TimeZone": "UTC"}).as_bytes()
    )


def _make_identity(role: str, claims: Mapping[str, object]) -> bytes:
    return statements.make_settings_statement(
        {"role": role, "request.jwt.claims": json.dumps(claims), "TimeZone": "UTC"}
    ).as_bytes()


def _make_claims(user: base.User) -> dict[str, object]:
    """Return the claims of the token, but with our own subject and role."""
    claims: dict[str, object] = {}
    if user.jwt is not None:
        try:
            claims = secrets.read_unverified_claims(user.jwt)
        except ValueError as exc:
            raise errors.Forbidden(
                f"the token cannot be decoded ({exc}); sign in again", sqlstate="28000"
            ) from exc
    return claims | {"sub": user.id, "role": "authenticated"}
