"""Whether anything in a database changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

_TABLES = """
    select format('%I.%I', n.nspname, c.relname)
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname in ('public', 'private')
      and c.relname not in ('sweep_state', 'conflicts')
    order by 1
"""


async def take(conn: psycopg.AsyncConnection) -> dict[str, str | None]:
    """Hash the contents of every table of ours but statistics; conn is a superuser's."""
    names = [name for (name,) in await (await conn.execute(_TABLES)).fetchall()]
    hashes = {}
    for name in names:
        query = f"select md5(string_agg(t::text, '|' order by t::text)) from {name} as t"
        row = await (await conn.execute(query.encode())).fetchone()
        hashes[name] = row[0] if row else None
    return hashes
