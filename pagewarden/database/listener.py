"""Wake workers when a document or volume arrives, so that they need not poll often.

    async with open_listener(url) as listener:
        with listener.subscribe(["image"]) as event:
            …                                   # event is an asyncio.Event

A notification is only a hint: it may be lost, or be for nothing. Subscribers also poll.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.database import connection_pool
from pagewarden.database.errors import translate_postgres_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import LiteralString

    import psycopg

log = structlog.get_logger(__name__)

DOCUMENT_CHANNEL = "pagewarden_documents"
VOLUME_CHANNEL = "pagewarden_volumes"
RECONNECT_SECONDS = 1.0


class Listener:
    """The subscribers of a channel; without a connection, they are only notified locally."""

    def __init__(self) -> None:
        self._subscribers: dict[asyncio.Event, frozenset[str]] = {}

    @contextlib.contextmanager
    def subscribe(self, lanes: Iterable[str]) -> Iterator[asyncio.Event]:
        """Yield an event that is set when a document arrives in one of the lanes."""
        event = asyncio.Event()
        self._subscribers[event] = frozenset(lanes)
        try:
            yield event
        finally:
            del self._subscribers[event]

    def notify(self, lane: str | None = None) -> None:
        """Set the events of all subscribers of a lane, or of all lanes."""
        for event, lanes in self._subscribers.items():
            if lane is None or lane in lanes:
                event.set()


@contextlib.asynccontextmanager
async def open_listener(
    url: str | None, channel: LiteralString = DOCUMENT_CHANNEL
) -> AsyncIterator[Listener]:
    """Listen on a separate connection; without a URL, or through a pooler, nothing is received."""
    listener = Listener()
    if url is None:
        yield listener
        return
    pool = connection_pool.ConnectionPool(url, size=1)
    task = asyncio.create_task(_listen(pool, listener, channel))
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pool.aclose()


async def _listen(
    pool: connection_pool.ConnectionPool, listener: Listener, channel: LiteralString
) -> None:
    """Listen until cancelled, reconnecting after a lost connection."""
    while True:
        try:
            with translate_postgres_errors():
                async with pool.connection() as connection:
                    if await _is_pooled(connection):
                        log.warning(
                            "listen_unsupported",
                            reason="a pooler is in use; LISTEN requires a direct connection",
                        )
                        return
                    await _receive(connection, listener, channel)
        except errors.DatabaseUnavailable as exc:
            log.warning("listener_disconnected", error=str(exc))
        except errors.DatabaseError as exc:
            log.warning("listen_unsupported", reason=str(exc))
            return
        await asyncio.sleep(RECONNECT_SECONDS)


async def _receive(
    connection: psycopg.AsyncConnection, listener: Listener, channel: LiteralString
) -> None:
    await connection.execute(f"listen {channel}")
    listener.notify()  # earlier notifications may have been missed
    async for notification in connection.notifies():
        listener.notify(notification.payload)


async def _is_pooled(connection: psycopg.AsyncConnection) -> bool:
    """Return whether another server process responds than the one that accepted the connection.

    Through a transaction pooler LISTEN would seem to succeed, on the session of another client.
    """
    cursor = await connection.execute("select pg_catalog.pg_backend_pid()")
    return await cursor.fetchone() != (connection.info.backend_pid,)
