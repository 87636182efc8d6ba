"""Postgres itself, through psycopg.

A call is one round trip: role, claims and call travel together as one simple query, which
Postgres runs as one transaction. (psycopg's pipeline mode does the same at half the speed.)
Whatever is set is set for the transaction only, so a transaction pooler may stand between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pagewarden import errors, unverified
from pagewarden.database import interface, statements, translate
from pagewarden.database import pool as pools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import psycopg
    from psycopg import sql

    from pagewarden.database import arguments

_CONNECTIONS = 10
_UNDEFINED_FUNCTION = "42883"

_MAY_BE_SERVICE = """
select r is not null and pg_has_role(r, 'member') from to_regrole('service_role') as r
"""


@dataclass(frozen=True, slots=True)
class _Server:
    """What all identities share: the connections, and what is known of the functions."""

    pool: pools.Pool
    timeout: float
    calls: dict[tuple[str, frozenset[str]], statements.Call] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Lend a connection for as long as a call may take, with our errors instead of others."""
        with translate.foreign_errors():
            async with asyncio.timeout(self.timeout), self.pool.connection() as connection:
                yield connection


class DirectDatabase(interface.Database):
    """A server, and the settings that each call starts with."""

    def __init__(self, server: _Server, identity: bytes) -> None:
        self._server = server
        self._identity = identity

    def acting_as(self, user: interface.User) -> DirectDatabase:
        """See the same database as this user, whose row-level security applies."""
        return DirectDatabase(self._server, _identity("authenticated", _claims(user)))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._server.pool.aclose()

    async def _rpc(self, name: str, given: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        key = name, frozenset(given.values)
        known = key in self._server.calls
        try:
            return await self._call(key, given)
        except errors.InvalidCall as exc:
            if exc.sqlstate != _UNDEFINED_FUNCTION or not known:
                raise
        # A migration may have changed it since it was looked up; nothing has been done so far.
        self._server.calls.pop(key, None)
        return await self._call(key, given)

    async def _call(self, key: tuple[str, frozenset[str]], given: arguments.Arguments) -> Any:  # noqa: ANN401  # JSON
        async with self._server.connection() as connection:
            call = self._server.calls.get(key)
            if call is None:
                call = self._server.calls[key] = await statements.find_call(connection, *key)
            result = await self._run(connection, call.statement(connection, given.encoded))
        return None if call.shape is statements.Shape.NOTHING else result

    async def _select(self, query: arguments.Query) -> list[dict[str, Any]]:
        async with self._server.connection() as connection:
            statement = statements.select(query).as_bytes(connection)
            rows: list[dict[str, Any]] = await self._run(connection, statement)
        return rows

    async def _insert(self, change: arguments.Change) -> list[dict[str, Any]]:
        return await self._write(statements.insert(change))

    async def _update(self, change: arguments.Change) -> list[dict[str, Any]]:
        return await self._write(statements.update(change))

    async def _write(self, statement: sql.Composed) -> list[dict[str, Any]]:
        async with self._server.connection() as connection:
            rows: list[dict[str, Any]] = await self._run(connection, statement.as_bytes(connection))
        return rows

    async def _run(self, connection: psycopg.AsyncConnection, statement: bytes) -> Any:  # noqa: ANN401  # JSON
        cursor = await connection.execute(self._identity + statement)
        cursor.nextset()  # past what set_config() returned
        row = await cursor.fetchone()
        return row[0] if row else None


async def connect_direct(
    url: str,
    *,
    connections: int = _CONNECTIONS,
    timeout: float = interface.TIMEOUT_SECONDS,  # noqa: ASYNC109  # of each later call
) -> DirectDatabase:
    """Connect to Postgres, with at most so many connections, and seconds for each call.

    A login that may be service_role becomes it for each call; any other, such as
    pagewarden_worker, calls as itself.
    """
    server = _Server(pools.Pool(url, size=connections), timeout)
    async with server.connection() as connection:
        row = await (await connection.execute(_MAY_BE_SERVICE)).fetchone()
    if row == (True,):
        return DirectDatabase(server, _identity("service_role", {"role": "service_role"}))
    return DirectDatabase(server, statements.settings({"TimeZone": "UTC"}).as_bytes())


def _identity(role: str, claims: Mapping[str, object]) -> bytes:
    return statements.settings(
        {"role": role, "request.jwt.claims": json.dumps(claims), "TimeZone": "UTC"}
    ).as_bytes()


def _claims(user: interface.User) -> dict[str, object]:
    """Take the claims out of the token; who the user is and may be is not left to it."""
    claims: dict[str, object] = {}
    if user.jwt is not None:
        try:
            claims = unverified.claims(user.jwt)
        except ValueError as exc:
            raise errors.Forbidden(f"the token cannot be read: {exc}", sqlstate="28000") from exc
    return claims | {"sub": user.id, "role": "authenticated"}
