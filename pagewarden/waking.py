"""Hear that a document or a volume came, instead of asking again and again.

    async with waking.listening(url) as hints:
        with hints.bell(["image"]) as bell:
            …                                   # bell is an asyncio.Event

A hint is only a hint: it may be lost, and it may be for nothing. Whoever waits also polls.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.database import pool as pools
from pagewarden.database import translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import LiteralString

    import psycopg

log = structlog.get_logger(__name__)

CHANNEL = "pagewarden_documents"
VOLUMES = "pagewarden_volumes"
RECONNECT_SECONDS = 1.0


class Hints:
    """The bells of those who wait. Where nobody listens they stay silent, and polling remains."""

    def __init__(self) -> None:
        self._bells: dict[asyncio.Event, frozenset[str]] = {}

    @contextlib.contextmanager
    def bell(self, lanes: Iterable[str]) -> Iterator[asyncio.Event]:
        """Have a bell that rings when a document comes into one of the lanes."""
        bell = asyncio.Event()
        self._bells[bell] = frozenset(lanes)
        try:
            yield bell
        finally:
            del self._bells[bell]

    def ring(self, lane: str | None = None) -> None:
        """Ring the bells of a lane, or all of them."""
        for bell, lanes in self._bells.items():
            if lane is None or lane in lanes:
                bell.set()


@contextlib.asynccontextmanager
async def listening(url: str | None, channel: LiteralString = CHANNEL) -> AsyncIterator[Hints]:
    """Listen on a connection of our own; without a URL, or through a pooler, nothing is heard."""
    hints = Hints()
    if url is None:
        yield hints
        return
    pool = pools.Pool(url, size=1)
    listener = asyncio.create_task(_listen(pool, hints, channel))
    try:
        yield hints
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        await pool.aclose()


async def _listen(pool: pools.Pool, hints: Hints, channel: LiteralString) -> None:
    """Listen again whenever the connection is lost."""
    while True:
        try:
            with translate.foreign_errors():
                async with pool.connection() as connection:
                    if await _is_pooled(connection):
                        log.warning("polling", reason="a pooler is in between; connect directly")
                        return
                    await _hear(connection, hints, channel)
        except errors.DatabaseAway as exc:
            log.warning("not_listening", error=str(exc))
        except errors.DatabaseError as exc:
            log.warning("polling", reason=str(exc))
            return
        await asyncio.sleep(RECONNECT_SECONDS)


async def _hear(connection: psycopg.AsyncConnection, hints: Hints, channel: LiteralString) -> None:
    await connection.execute(f"listen {channel}")
    hints.ring()  # nobody knows what came before
    async for notification in connection.notifies():
        hints.ring(notification.payload)


async def _is_pooled(connection: psycopg.AsyncConnection) -> bool:
    """Tell whether another process answers than the one that greeted us.

    Through a transaction pooler LISTEN would seem to succeed, on a session of somebody else's.
    """
    cursor = await connection.execute("select pg_catalog.pg_backend_pid()")
    return await cursor.fetchone() != (connection.info.backend_pid,)
