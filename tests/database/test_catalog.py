"""Rules that everything in schemas public and private keeps, asked of the catalog itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.local import server


# Each of these asks who the caller is, or shows only what row level security lets through.
FOR_PEOPLE = {
    "add_documents",
    "assign_task",
    "cancel_case",
    "cancel_check_job",
    "cancel_document",
    "cancel_volume_job",
    "case_contents",
    "check_job",
    "confirm_upload",
    "correct_page",
    "count_dead_letters",
    "create_case",
    "create_task",
    "create_volume_job",
    "dead_letter_groups",
    "decide_check",
    "delete_case",
    "delete_document",
    "document_history",
    "document_progress",
    "end_silence",
    "end_task",
    "erase_case",
    "erase_document",
    "give_back_documents",
    "grant_role",
    "has_role",
    "list_action_types",
    "list_acts",
    "list_alert_rules",
    "list_alerts",
    "list_case_people",
    "list_cases",
    "list_check_jobs",
    "list_dead_letters",
    "list_documents",
    "list_doubts",
    "list_functions",
    "list_lanes",
    "list_people",
    "list_tasks",
    "list_volume_jobs",
    "list_volume_tasks",
    "list_workers",
    "page_versions",
    "pause_lane",
    "pool_status",
    "read_again",
    "recover_stuck_documents",
    "refuse_documents",
    "report_conflict",
    "request_upload",
    "request_webhook",
    "rerun_check_job",
    "rerun_volumes",
    "resolve_dead_letter",
    "resolve_dead_letters",
    "restore_case",
    "restore_document",
    "results_by_hour",
    "resume_lane",
    "revoke_role",
    "route_document",
    "route_documents",
    "safe_document_reupload_v2",
    "search_documents",
    "set_alert_rule",
    "set_function",
    "set_task_priority",
    "share_case",
    "share_case_by_email",
    "silence_alerts",
    "stuck_documents",
    "submit_check_job",
    "test_alert",
    "type_text",
    "volume_board",
    "volume_history",
}

# A handful of rows for ever, so an index would never be used.
TINY_TABLES = {"lanes"}

_FUNCTIONS = """
    select p.oid::regprocedure::text as name, n.nspname as schema, p.proname as short,
      p.prosrc as source, p.prosecdef as is_definer, coalesce(p.proconfig, '{}') as config,
      p.proargnames as parameters, p.proargmodes::text[] as modes,
      obj_description(p.oid, 'pg_proc') as comment,
      array(
        select case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
      ) as grantees
    from pg_proc as p
    join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname in ('public', 'private')
    order by 1
"""


@pytest.fixture(scope="module")
async def catalog(
    local_server: server.LocalServer, migrated_template: str
) -> AsyncIterator[databases.Database]:
    """Share one database, which nobody changes."""
    async with databases.open_clone(local_server, migrated_template) as database:
        yield database


async def _rows(catalog: databases.Database, query: str) -> list[dict[str, Any]]:
    conn = await catalog.connect()
    found = await conn.execute(query.encode())
    names = [column.name for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in await found.fetchall()]


async def _names(catalog: databases.Database, query: str) -> list[str]:
    return [row["name"] for row in await _rows(catalog, query)]


async def test_every_function_pins_its_search_path(catalog: databases.Database) -> None:
    """A definer's path names pg_temp last, or a caller's temporary types could be taken."""
    empty, temp_last = 'search_path=""', "search_path=pg_catalog, pg_temp"

    unpinned = [
        function["name"]
        for function in await _rows(catalog, _FUNCTIONS)
        if temp_last not in function["config"]
        and (function["is_definer"] or empty not in function["config"])
    ]

    assert unpinned == []


async def test_every_function_has_a_comment_and_parameters_that_start_with_p(
    catalog: databases.Database,
) -> None:
    """Input parameters are told from columns by their name."""
    functions = await _rows(catalog, _FUNCTIONS)

    assert [f["name"] for f in functions if not f["comment"]] == []
    assert [f["name"] for f in functions if not all(map(_is_well_named, _inputs(f)))] == []


def _inputs(function: dict[str, Any]) -> list[str]:
    names = function["parameters"] or []
    modes = function["modes"] or ["i"] * len(names)
    return [name for name, mode in zip(names, modes, strict=True) if mode in "ibv"]


def _is_well_named(parameter: str) -> bool:
    return parameter.startswith("p_")


async def test_only_named_functions_are_executable_by_people(catalog: databases.Database) -> None:
    """Nothing is left to PUBLIC or anon, and signed-in people have a list of their own."""
    functions = await _rows(catalog, _FUNCTIONS)

    assert [f["name"] for f in functions if {"public", "anon"} & {*f["grantees"]}] == []
    for_people = {
        f["short"]
        for f in functions
        if f["schema"] == "public" and "authenticated" in f["grantees"]
    }
    assert for_people == FOR_PEOPLE


async def test_people_execute_no_definer_of_the_api(catalog: databases.Database) -> None:
    """What runs with more rights than its caller's is not exposed to anon and authenticated."""
    functions = await _rows(catalog, _FUNCTIONS)

    definers = [f for f in functions if f["is_definer"] and f["schema"] == "public"]

    assert [
        f["name"] for f in definers if {"public", "anon", "authenticated"} & {*f["grantees"]}
    ] == []


async def test_no_function_has_a_namesake(catalog: databases.Database) -> None:
    """An overload makes calls with defaults ambiguous."""
    names = [(f["schema"], f["short"]) for f in await _rows(catalog, _FUNCTIONS)]

    assert len(names) == len(set(names))


async def test_every_error_has_a_sqlstate_and_a_hint(catalog: databases.Database) -> None:
    """A caller can tell errors apart without reading their text, and learns what to do."""
    functions = await _rows(catalog, _FUNCTIONS)

    raised = [(f["name"], statement) for f in functions for statement in _raises(f["source"])]

    assert len(raised) == sum(f["source"].count("raise exception") for f in functions) > 0
    assert [r for r in raised if "errcode = '" not in r[1] or "hint = '" not in r[1]] == []


def _raises(source: str) -> list[str]:
    """Find statements that raise; a semicolon inside a text does not end one."""
    return re.findall(r"raise\s+exception(?:[^;']|'[^']*')*;", source)


async def test_no_function_swallows_unknown_errors(catalog: databases.Database) -> None:
    """A polite answer to an unknown error would hide it, and commit what came before."""
    swallowing = [
        function["name"]
        for function in await _rows(catalog, _FUNCTIONS)
        if re.search(r"when\s+others", function["source"])
    ]

    assert swallowing == []


async def test_every_table_has_row_level_security_a_comment_and_a_key(
    catalog: databases.Database,
) -> None:
    """A table nobody wrote a policy for shows nothing, instead of everything."""
    tables = await _rows(
        catalog,
        """
        select c.oid::regclass::text as name, c.relrowsecurity as is_secured,
          obj_description(c.oid, 'pg_class') as comment,
          exists (select from pg_index as i where i.indrelid = c.oid and i.indisprimary) as has_key
        from pg_class as c
        where c.relkind in ('r', 'p')
          and c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
        """,
    )

    assert tables
    assert [t for t in tables if not (t["is_secured"] and t["comment"] and t["has_key"])] == []


async def test_every_view_asks_with_the_rights_of_its_reader(catalog: databases.Database) -> None:
    """Views are security invokers with a comment, and none is materialized."""
    views = await _rows(
        catalog,
        """
        select c.oid::regclass::text as name, c.relkind = 'v' as is_plain,
          coalesce(c.reloptions, '{}') as options, obj_description(c.oid, 'pg_class') as comment
        from pg_class as c
        where c.relkind in ('v', 'm') and c.relnamespace in (
          'public'::regnamespace, 'private'::regnamespace, 'volumes'::regnamespace
        )
        """,
    )

    assert views
    assert [v for v in views if "security_invoker=true" not in v["options"]] == []
    assert [v for v in views if not (v["is_plain"] and v["comment"])] == []


async def test_every_rule_has_a_name_of_its_own(catalog: databases.Database) -> None:
    """Checks and unique constraints say in their name what they refuse."""
    nameless = await _names(
        catalog,
        r"""
        select c.conrelid::regclass || ': ' || c.conname as name
        from pg_constraint as c
        where c.connamespace in ('public'::regnamespace, 'private'::regnamespace)
          and c.contype in ('c', 'u', 'x') and c.conname ~ '_(check|key|excl)\d*$'
        """,
    )

    assert nameless == []


async def test_every_foreign_key_is_indexed(catalog: databases.Database) -> None:
    """Deleting what a row refers to finds the row without reading the table."""
    unindexed = await _rows(
        catalog,
        """
        select c.conrelid::regclass::text as name, c.conname
        from pg_constraint as c
        where c.contype = 'f'
          and c.connamespace in ('public'::regnamespace, 'private'::regnamespace)
          and not exists (
            select from pg_index as i
            where i.indrelid = c.conrelid and i.indisvalid
              and (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey
              -- A null refers to nothing, so an index may leave nulls out.
              and coalesce(pg_get_expr(i.indpred, i.indrelid) like '(% IS NOT NULL)', true)
          )
        """,
    )

    assert [key for key in unindexed if key["name"] not in TINY_TABLES] == []


async def test_every_type_has_a_comment(catalog: databases.Database) -> None:
    """Types that belong to no table say what they are for."""
    types = await _names(
        catalog,
        """
        select t.oid::regtype::text as name
        from pg_type as t
        left join pg_class as c on c.oid = t.typrelid
        where t.typnamespace in ('public'::regnamespace, 'private'::regnamespace)
          and (t.typtype in ('e', 'd', 'r') or c.relkind = 'c')
          and obj_description(t.oid, 'pg_type') is null
        """,
    )

    assert types == []
