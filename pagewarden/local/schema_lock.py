"""One lock for everything that changes the schema: two GRANTs at once on one object collide."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

# Any number will do, as long as it is always the same one.
_KEY = 7_240_001


async def acquire(conn: psycopg.AsyncConnection) -> None:
    """Wait for the lock, and keep it to the end of the transaction: a pooler allows no more."""
    await conn.execute("select pg_advisory_xact_lock(%s)", (_KEY,))
