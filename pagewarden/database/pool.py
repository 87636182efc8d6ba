"""A few connections to Postgres, opened when needed and kept.

psycopg_pool is not used: it finds out that a connection is dead by a round trip before every
call, then waits a second before it tries the next; it says why it cannot connect only in its
log; and its pauses between attempts double up to minutes, while a worker has 20 seconds to
renew its locks once the database is back. Here a caller who finds no connection opens one and
learns at once why that failed.
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
from pagewarden.database import interface

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_DEFAULTS = {
    "fallback_application_name": "pagewarden",  # PGAPPNAME goes before
    "client_encoding": "utf8",
    "connect_timeout": int(interface.CONNECT_SECONDS),
    # A host that vanished without a word is noticed before a lock expires.
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # milliseconds
}


class Pool:
    """At most size connections, each with one caller at a time."""

    def __init__(self, url: str, *, size: int) -> None:
        self._parameters: dict[str, Any] = _DEFAULTS | _parse(url)
        self._slots = asyncio.Semaphore(size)
        self._idle: list[psycopg.AsyncConnection] = []
        self._lost = 0
        self._closed = False

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Lend a connection that was alive a moment ago; wait for one when all are lent."""
        async with self._slots:
            connection = await self._take() or await self._open()
            try:
                yield connection
            finally:
                await self._give_back(connection)

    async def aclose(self) -> None:
        """Close the idle connections; the others are closed when they are given back."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _take(self) -> psycopg.AsyncConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            self._lost += 1
            await connection.close()
        return None

    async def _open(self) -> psycopg.AsyncConnection:
        if self._closed:
            raise psycopg.InterfaceError("the connections have been closed")
        # Behind a transaction pooler a prepared statement may be on another server.
        connection = await psycopg.AsyncConnection.connect(
            **self._parameters, autocommit=True, prepare_threshold=None
        )
        if self._lost:
            self._lost -= 1
            _count_reconnect()
        return connection

    async def _give_back(self, connection: psycopg.AsyncConnection) -> None:
        # After an error or a cancelled call the state may be anything.
        if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            self._lost += not self._closed
            await connection.close()
        else:
            self._idle.append(connection)


def _count_reconnect() -> None:
    from pagewarden.telemetry import metrics  # noqa: PLC0415  # commands that end at once count nothing

    metrics.current().reconnects.inc()


def _is_quiet(connection: psycopg.AsyncConnection) -> bool:
    """Tell, without a round trip, that the server has not said goodbye.

    A server that shuts down or ends a session writes to it. Nothing of the next call has been
    sent yet, so another connection can take it. The rare other word, such as a changed
    setting, costs a new connection and nothing more.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _parse(url: str) -> dict[str, Any]:
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The cause would quote the URL, and with it the password.
        raise errors.SettingsError(
            "the database URL cannot be read; write postgresql://user:password@host:port/database"
        ) from None
