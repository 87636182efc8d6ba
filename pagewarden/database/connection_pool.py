"""A small pool of Postgres connections, opened on demand and kept open.

psycopg_pool is not used: it detects dead connections with a round trip before every call, waits a
second before it tries the next one, reports only in its log why it cannot connect, and backs off
for up to minutes, while a worker has 20 seconds to renew its locks once the database is back. Here
a caller without a connection opens one and gets the reason of a failure at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import conninfo
from psycopg.pq import TransactionStatus

from pagewarden import errors
from pagewarden.database import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_DEFAULTS = {
    "fallback_application_name": "pagewarden",  # PGAPPNAME takes precedence
    "client_encoding": "utf8",
    "connect_timeout": int(base.CONNECT_SECONDS),
    # Detect an unreachable host before a lock expires.
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # milliseconds
}


class ConnectionPool:
    """Up to `size` connections, each used by one caller at a time."""

    def __init__(self, url: str, *, size: int) -> None:
        self._parameters: dict[str, Any] = _DEFAULTS | _parse_url(url)
        self._slots = asyncio.Semaphore(size)
        self._idle: list[psycopg.AsyncConnection] = []
        self._lost = 0
        self._closed = False

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Lend a connection that was just checked; wait for one if all are in use."""
        async with self._slots:
            connection = await self._acquire() or await self._open_connection()
            try:
                yield connection
            finally:
                await self._release(connection)

    async def aclose(self) -> None:
        """Close the idle connections; the others are closed when they are returned."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _acquire(self) -> psycopg.AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if _is_alive(connection):
                return connection
            self._lost += 1
            await connection.close()
        return None

    async def _open_connection(self) -> psycopg.AsyncConnection:
        if self._closed:
            raise psycopg.InterfaceError("the connection pool is closed")
        # Behind a transaction pooler, a prepared statement may be on another connection.
        connection = await psycopg.AsyncConnection.connect(
            **self._parameters, autocommit=True, prepare_threshold=None
        )
        if self._lost:
            self._lost -= 1
            _count_reconnect()
        return connection

    async def _release(self, connection: psycopg.AsyncConnection) -> None:
        # After an error or a cancelled call, the state is unknown.
        if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            self._lost += not self._closed
            await connection.close()
        else:
            self._idle.append(connection)


def _count_reconnect() -> None:
    from pagewarden.telemetry import metrics  # noqa: PLC0415  # short commands need no metrics

    metrics.current().reconnects.inc()


def _is_alive(connection: psycopg.AsyncConnection) -> bool:
    """Return whether the server has sent nothing, which needs no round trip.

    A server that shuts down or ends a session sends a message. The next call has not been sent
    yet, so it can use another connection. Other messages, such as a changed setting, are rare and
    only cost a new connection.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _parse_url(url: str) -> dict[str, Any]:
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Without the cause, which quotes the URL with its password.
        raise errors.SettingsError(
            "the database URL is invalid; expected postgresql://user:password@host:port/database"
        ) from None
