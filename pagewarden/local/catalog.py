"""The contents of a database: each of our objects and each row of our tables, as one line.

The lines are the same on Postgres 15 to 18, so two databases with equal lines have the same schema.
Whitespace and comments inside functions are ignored; comments on objects are separate lines.
Not listed: objects of extensions, other schemas, and the schedules of pg_cron.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from psycopg import sql

from pagewarden.local import sql_script

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import psycopg

SCHEMAS = ("public", "private", "volumes")

# Roles whose rights are part of the schema; grants to other roles are not.
_ROLES = ("anon", "authenticated", "service_role", "pagewarden_worker")

# Values that differ each time the migrations run.
_CHANGING = ("created_at", "updated_at", "server_since", "swept_at")

# A table and a type may not have the same name; a function may have that of a table.
_OBJECTS = """
with extension as (
  select d.classid, d.objid from pg_depend as d where d.deptype = 'e'
), object as (
  select 'pg_class'::regclass as classid, c.oid, c.relnamespace as schema, c.relname as name,
    '' as mark
  from pg_class as c where c.relkind not in ('i', 'I', 't')
  union all
  select 'pg_type'::regclass, t.oid, t.typnamespace, t.typname, '' from pg_type as t
  where t.typtype in ('d', 'e', 'r')
  union all
  select 'pg_proc'::regclass, p.oid, p.pronamespace, p.proname, '()' from pg_proc as p
)
select distinct format('%I.%I', n.nspname, o.name) || o.mark
from object as o join pg_namespace as n on n.oid = o.schema
where n.nspname = any ({schemas})
  and not exists (
    select from extension as e where e.classid = o.classid and e.objid = o.oid
  )
"""

_HAS_QUEUES = "select to_regclass('pgmq.meta') is not null"
_QUEUES = r"select queue_name from pgmq.meta where queue_name like 'ocr\_%'"

_TABLES = """
select n.nspname, c.relname from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname = any ({schemas})
  and ({names} is null or format('%I.%I', n.nspname, c.relname) = any ({names}))
order by 1, 2
"""
_ROWS = "select (to_jsonb(t) - {})::text from {} as t"


@dataclass(frozen=True, slots=True)
class DatabaseDigest:
    """The contents of a database as two hashes: of its objects, and of the rows of its tables."""

    schema: str
    rows: str


async def compute_digest(
    conn: psycopg.AsyncConnection, *, names: Collection[str] | None = None
) -> DatabaseDigest:
    """Compute the digest of the database, or of the objects with these names only."""
    return DatabaseDigest(
        await digest_schema(conn, names=names), _hash_lines(await _list_rows(conn, names))
    )


async def digest_schema(
    conn: psycopg.AsyncConnection, *, names: Collection[str] | None = None
) -> str:
    """Compute the hash of the objects, which does not depend on the rows."""
    return _hash_lines(await list_definitions(conn, names=names, comments=False))


async def list_lines(conn: psycopg.AsyncConnection, *, comments: bool = True) -> list[str]:
    """Return all lines: kind and name with the definition, or with a row."""
    return sorted([*await list_definitions(conn, comments=comments), *await _list_rows(conn, None)])


async def list_objects(conn: psycopg.AsyncConnection) -> set[str]:
    """Return the names of tables, views, sequences and types, and of functions with parentheses."""
    cursor = await conn.execute(sql.SQL(_OBJECTS).format(**_make_query_values(None)))
    return {name for (name,) in await cursor.fetchall()}


async def list_definitions(
    conn: psycopg.AsyncConnection, *, names: Collection[str] | None = None, comments: bool = True
) -> list[str]:
    """Return the lines of the objects, or of those with these names only, without rows."""
    text = resources.files("pagewarden.local").joinpath("catalog.sql").read_text("utf-8")
    definitions = await _query_without_search_path(
        conn, sql.SQL(text).format(**_make_query_values(names))
    )
    return sorted(
        f"{kind}: {name} {_normalize(kind, definition)}".rstrip()
        for kind, name, definition in [*definitions, *await _list_queues(conn)]
        if name is not None and (comments or kind != "comment")
    )


def _make_query_values(names: Collection[str] | None) -> dict[str, sql.Composable]:
    name_list = sql.SQL("null::text[]") if names is None else _make_text_array(sorted(names))
    return {
        "schemas": _make_text_array(SCHEMAS),
        "roles": _make_text_array(_ROLES),
        "names": name_list,
    }


def _make_text_array(names: Iterable[str]) -> sql.Composable:
    return sql.SQL("{}::text[]").format(sql.Literal(list(names)))


async def _query_without_search_path(
    conn: psycopg.AsyncConnection, query: sql.Composed
) -> list[tuple[Any, ...]]:
    """Run a query so that names come out qualified, and restore the search path."""
    async with conn.transaction():
        row = await (await conn.execute("select current_setting('search_path')")).fetchone()
        await conn.execute("set local search_path = ''")
        rows = await (await conn.execute(query)).fetchall()
        await conn.execute("select set_config('search_path', %s, true)", row)
    return rows


async def _list_queues(conn: psycopg.AsyncConnection) -> list[tuple[str, str, str]]:
    if await (await conn.execute(_HAS_QUEUES)).fetchone() != (True,):
        return []
    rows = await (await conn.execute(_QUEUES)).fetchall()
    return [("queue", name, "") for (name,) in rows]


async def _list_rows(conn: psycopg.AsyncConnection, names: Collection[str] | None) -> list[str]:
    tables = await conn.execute(sql.SQL(_TABLES).format(**_make_query_values(names)))
    lines = []
    for schema, name in await tables.fetchall():
        table = sql.Identifier(schema, name)
        rows = await conn.execute(sql.SQL(_ROWS).format(_make_text_array(_CHANGING), table))
        lines += [f"row: {schema}.{name} {row}" for (row,) in await rows.fetchall()]
    return sorted(lines)


@functools.lru_cache(maxsize=4096)
def _normalize(kind: str, definition: str) -> str:
    if kind == "function body":
        return " ".join(sql_script.iterate_tokens(definition))
    return " ".join(definition.split())


def _hash_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
