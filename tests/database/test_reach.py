"""What each role of the database can reach at all, asked of the catalog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server


_OURS = "('public'::regnamespace, 'private'::regnamespace)"


@pytest.fixture(scope="module")
async def catalog(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[databases.Database]:
    """Share one database, which nobody changes."""
    async with databases.open_clone(local_server, migrated_template) as database:
        yield database


async def _names(catalog: databases.Database, query: str, role: str = "") -> set[str]:
    conn = await catalog.connect()
    found = await conn.execute(query.encode(), {"role": role})
    return {name for (name,) in await found.fetchall()}


async def _schemas(catalog: databases.Database, role: str) -> set[str]:
    return await _names(
        catalog,
        "select nspname from pg_namespace where has_schema_privilege(%(role)s, oid, 'usage') "
        "and nspname !~ '^pg_' and nspname <> 'information_schema'",
        role,
    )


async def _executable(catalog: databases.Database, role: str, schema: str) -> set[str]:
    return await _names(
        catalog,
        "select proname from pg_proc where has_function_privilege(%(role)s, oid, 'execute') "
        f"and pronamespace = '{schema}'::regnamespace",
        role,
    )


async def test_anon_reaches_nothing(catalog: databases.Database) -> None:
    """Who has not signed in executes nothing, reads nothing, and has no way into schema private."""
    assert "private" not in await _schemas(catalog, "anon")
    assert await _executable(catalog, "anon", "public") == set()
    assert await _executable(catalog, "anon", "private") == set()
    assert await _privileges(catalog, "anon") == set()


async def test_a_worker_holds_functions_and_nothing_else(catalog: databases.Database) -> None:
    """A worker's login has no right on any table, no other schema, and belongs to no other role."""
    assert await _schemas(catalog, "pagewarden_worker") == {"public", "private"}
    assert await _privileges(catalog, "pagewarden_worker") == set()
    memberships = (
        "select roleid::regrole::text from pg_auth_members where member = %(role)s::regrole"
    )
    assert await _names(catalog, memberships, "pagewarden_worker") == set()
    attributes = """
        select rolname from pg_roles where rolname = %(role)s
          and not (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls)
    """
    assert await _names(catalog, attributes, "pagewarden_worker") == {"pagewarden_worker"}


async def test_people_write_no_column(catalog: databases.Database) -> None:
    """What signed-in people change, they change by functions."""
    assert await _privileges(catalog, "authenticated", "insert, update") == set()


async def _privileges(
    catalog: databases.Database, role: str, verbs: str = "select, insert, update, references"
) -> set[str]:
    """Name tables, views and sequences the role can do anything with, system catalogs left out."""
    return await _names(
        catalog,
        f"""
        select c.oid::regclass::text
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and case
          when c.relkind in ('r', 'p', 'v', 'm', 'f') then
            has_table_privilege(%(role)s, c.oid, 'delete, truncate, trigger')
            or has_any_column_privilege(%(role)s, c.oid, '{verbs}')
          when c.relkind = 'S' then has_sequence_privilege(%(role)s, c.oid, 'usage, update')
        end
        """,
        role,
    )


@pytest.mark.parametrize("role", ["anon", "authenticated", "service_role", "pagewarden_worker"])
async def test_no_role_of_the_api_can_truncate_or_build(
    catalog: databases.Database, role: str
) -> None:
    """Rights that row level security does not limit are nobody's."""
    unlimited = await _names(
        catalog,
        f"""
        select oid::regclass::text from pg_class
        where relnamespace in {_OURS} and relkind in ('r', 'p', 'v')
          and has_table_privilege(%(role)s, oid, 'truncate, references, trigger')
        union all
        select nspname from pg_namespace
        where oid in {_OURS} and has_schema_privilege(%(role)s, oid, 'create')
        """,
        role,
    )

    assert unlimited == set()


@pytest.mark.parametrize(
    ("role", "for_operators"),
    [
        ("authenticated", set()),
        ("pagewarden_worker", set()),
        ("service_role", {"invariant_violations"}),
    ],
)
async def test_private_functions_are_granted_only_where_needed(
    catalog: databases.Database, role: str, for_operators: set[str]
) -> None:
    """A role executes what its public functions, views and policies call, and nothing beside it."""
    granted = await _executable(catalog, role, "private")

    assert granted == await _needed(catalog, role) | for_operators


async def _needed(catalog: databases.Database, role: str) -> set[str]:
    needed: set[str] = set()
    fresh = set().union(*map(_mentioned, await _entry_points(catalog, role)))
    while fresh:
        needed |= fresh
        # A definer calls with rights of its own, so what it calls is not needed.
        sources = await _names(
            catalog,
            "select prosrc from pg_proc where pronamespace = 'private'::regnamespace "
            f"and not prosecdef and proname = any ('{{{','.join(fresh)}}}')",
        )
        fresh = set().union(*map(_mentioned, sources)) - needed
    return needed


async def _entry_points(catalog: databases.Database, role: str) -> set[str]:
    """Return the texts that run with the rights of the role itself."""
    return await _names(
        catalog,
        """
        select prosrc from pg_proc
        where pronamespace = 'public'::regnamespace and not prosecdef
          and has_function_privilege(%(role)s, oid, 'execute')
        union all
        select pg_get_viewdef(oid) from pg_class
        where relnamespace = 'public'::regnamespace and relkind = 'v'
          and has_table_privilege(%(role)s, oid, 'select')
        union all
        select qual from pg_policies where %(role)s::name = any (roles)
        union all
        -- A trigger function needs no grant, but what it calls does, unless it is a definer.
        select p.prosrc from pg_trigger as t
        join pg_proc as p on p.oid = t.tgfoid and not p.prosecdef
        where not t.tgisinternal and has_table_privilege(%(role)s, t.tgrelid, 'insert, update')
        """,
        role,
    )


def _mentioned(text: str) -> set[str]:
    return set(re.findall(r"private\.(\w+)\(", text))
