"""A database as it is after months, for measuring what people see of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

_STATEMENTS = Path(__file__).with_name("fill.sql")


async def fill(conn: psycopg.AsyncConnection, documents: int) -> None:
    """Fill a new database; the connection is of a superuser, with autocommit."""
    await conn.execute("select set_config('bench.documents', %s, false)", (str(documents),))
    await conn.execute(_STATEMENTS.read_bytes())
    await conn.execute("vacuum analyze")
