"""Rows as dicts, for tests that look into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg
    from psycopg.abc import QueryNoTemplate


async def rows(
    conn: psycopg.AsyncConnection,
    query: QueryNoTemplate,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run a statement and return all its rows."""
    async with conn.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query, params)
        return await cursor.fetchall()


async def one(
    conn: psycopg.AsyncConnection,
    query: QueryNoTemplate,
    params: Sequence[Any] | Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a statement that returns exactly one row."""
    (row,) = await rows(conn, query, params)
    return row


async def violations(conn: psycopg.AsyncConnection) -> list[str]:
    """Name the invariants that do not hold."""
    found = await rows(conn, "select distinct invariant from private.invariant_violations()")
    return sorted(row["invariant"] for row in found)
