"""Calls and connections of people who are signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from tests.database import factories

if TYPE_CHECKING:
    import uuid

    import psycopg

    from tests.support import databases


async def call(
    database: databases.Database, who: uuid.UUID, function: str, **params: Any
) -> list[Any]:
    """Call a function as this person, in a transaction of its own."""
    async with database.acting_as(who) as conn:
        return await factories.call(conn, function, **params)


async def sign_in(conn: psycopg.AsyncConnection, who: uuid.UUID) -> None:
    """Have a connection be this person's from now on."""
    claims = Jsonb({"role": "authenticated", "sub": str(who)})
    await conn.execute("select set_config('request.jwt.claims', %s::text, false)", (claims,))
    await conn.execute("set role authenticated")
