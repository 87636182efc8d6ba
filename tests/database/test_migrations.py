from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden import errors
from pagewarden.local import catalog, cluster, migrations, schema_digests
from tests.support import databases

if TYPE_CHECKING:
    from pathlib import Path


ONE = "-- the first\ncreate table public.one (id int primary key);\ninsert into one values (1);\n"
TWO = "create table public.two (id int references public.one);\n"

STALE = 'supabase/schema.digest is not of these migrations; run "make generate"'


def _write(folder: Path, *texts: str) -> None:
    names = ("one", "two", "three")
    for number, text in enumerate(texts):
        (folder / f"2025010100000{number}_{names[number]}.sql").write_text(text)


async def _measured(database: databases.Database, folder: Path) -> None:
    """Write schema.digest beside the folder, as make generate does; the database is empty."""
    content = await migrations.compute_digests(database.url(), folder=folder)
    (folder.parent / schema_digests.NAME).write_text(content)


def _require_fresh_digests() -> None:
    scripts = [file.path.read_text("utf-8") for file in migrations.list_migrations()]
    assert schema_digests.load(migrations.default_folder(), scripts).is_complete, STALE


async def _everything(database: databases.Database) -> list[str]:
    """List the catalog, the history and the stamp."""
    conn = await database.connect(cluster.SUPERUSER)
    found = await catalog.list_lines(conn)
    for name in ("schema_migrations", "pagewarden_schema"):
        table = f"supabase_migrations.{name}"
        if await (await conn.execute("select to_regclass(%s)", (table,))).fetchone() != (None,):
            rows = await conn.execute(f"select t::text from {table} as t order by 1".encode())
            found += [row for (row,) in await rows.fetchall()]
    return found


async def _stamp(database: databases.Database) -> dict[str, Any]:
    conn = await database.connect()
    found = await conn.execute("select to_jsonb(s) from supabase_migrations.pagewarden_schema as s")
    (stamp,) = await found.fetchone() or ({},)
    return dict(stamp)


async def _tables(database: databases.Database) -> list[str]:
    conn = await database.connect()
    found = await conn.execute("select tablename from pg_tables where schemaname = 'public'")
    return sorted(name for (name,) in await found.fetchall())


async def test_migrate_applies_in_order_and_records(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """Files run by number and are recorded with the columns the Supabase CLI uses."""
    _write(tmp_path, ONE, TWO)

    applied = await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert applied == ["20250101000000_one", "20250101000001_two"]
    conn = await bare_database.connect()
    recorded = await conn.execute(
        "select version, name, statements from supabase_migrations.schema_migrations "
        "order by version"
    )
    assert await recorded.fetchall() == [
        (
            "20250101000000",
            "one",
            [
                "-- the first\ncreate table public.one (id int primary key)",
                "insert into one values (1)",
            ],
        ),
        ("20250101000001", "two", ["create table public.two (id int references public.one)"]),
    ]


async def test_migrate_again_applies_only_what_is_new(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """What is recorded is not run again."""
    _write(tmp_path, ONE)
    await migrations.migrate(bare_database.url(), folder=tmp_path)
    _write(tmp_path, ONE, TWO)

    assert await migrations.list_pending(bare_database.url(), folder=tmp_path) == [
        "20250101000001_two"
    ]
    assert await migrations.migrate(bare_database.url(), folder=tmp_path) == ["20250101000001_two"]
    assert await migrations.migrate(bare_database.url(), folder=tmp_path) == []


async def test_two_runs_of_our_own_migrations_at_once_apply_them_once(
    bare_database: databases.Database,
) -> None:
    """One of them waits, although the first has all files in one transaction."""
    runs = await asyncio.gather(*(migrations.migrate(bare_database.url()) for _ in range(2)))

    assert sorted(runs) == [[], [file.label for file in migrations.list_migrations()]]
    assert (await _stamp(bare_database))["migrations"] == [
        f.label for f in migrations.list_migrations()
    ]


async def test_pending_changes_nothing(bare_database: databases.Database, tmp_path: Path) -> None:
    """Asking leaves no trace, not even the history table."""
    _write(tmp_path, ONE)

    assert await migrations.list_pending(bare_database.url(), folder=tmp_path) == [
        "20250101000000_one"
    ]

    conn = await bare_database.connect()
    found = await conn.execute("select to_regnamespace('supabase_migrations')")
    assert await found.fetchone() == (None,)


async def test_migrations_at_once_apply_each_file_once(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """Of several runners at once one applies a file, and the others find it done."""
    _write(tmp_path, ONE, TWO)

    runs = await asyncio.gather(
        *(migrations.migrate(bare_database.url(), folder=tmp_path) for _ in range(5))
    )

    assert sorted(itertools.chain(*runs)) == ["20250101000000_one", "20250101000001_two"]


@pytest.mark.parametrize(
    ("text", "line", "sqlstate"),
    [
        ("create table public.three ();\n\n-- oops\nselect\n  nonsense;\n", 5, "42703"),
        ("create table public.three ();\n\n/* ; */\n\ninsert into one\nvalues (1);", 5, "23505"),
        ("create table public.three ();\ndo $$ begin\n raise 'no;'; end $$;", 2, "P0001"),
    ],
    ids=["syntax", "duplicate", "raise"],
)
async def test_failed_migration_is_undone_and_located(
    bare_database: databases.Database, tmp_path: Path, text: str, line: int, sqlstate: str
) -> None:
    """The error names file, line and SQLSTATE; earlier files stay, this one leaves nothing."""
    _write(tmp_path, ONE, TWO)
    await migrations.migrate(bare_database.url(), folder=tmp_path)
    _write(tmp_path, ONE, TWO, text)

    with pytest.raises(
        errors.DatabaseError,
        match=rf"20250101000002_three\.sql, line {line}: .*{sqlstate}.*nothing in this file",
    ) as caught:
        await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert caught.value.sqlstate == sqlstate
    assert await _tables(bare_database) == ["one", "two"]
    pending = await migrations.list_pending(bare_database.url(), folder=tmp_path)
    assert pending == ["20250101000002_three"]


async def test_failed_first_migration_leaves_the_database_empty(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """An empty database gets all files or none, and not even the history table."""
    _write(tmp_path, ONE, TWO, "select nonsense;")
    before = await _everything(bare_database)

    with pytest.raises(errors.DatabaseError, match=r"20250101000002_three\.sql, line 1"):
        await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert await _everything(bare_database) == before
    _write(tmp_path, ONE, TWO, "select 1;")
    assert len(await migrations.migrate(bare_database.url(), folder=tmp_path)) == 3


async def test_settings_of_one_migration_do_not_reach_the_next(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """A role or search path that a file sets ends with the file."""
    _write(tmp_path, "set search_path = pg_catalog; set role anon;", "create table here (id int);")

    await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert await _tables(bare_database) == ["here"]


async def test_migration_that_commits_is_refused(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """A file with its own commit is not one transaction, and is told so."""
    _write(tmp_path, "create table public.one ();\ncommit;\ncreate table public.two ();")

    with pytest.raises(errors.DatabaseError, match=r"line 2 ends the transaction"):
        await migrations.migrate(bare_database.url(), folder=tmp_path)


async def test_recorded_migration_without_file_is_refused(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """A database ahead of the program is left alone."""
    _write(tmp_path, ONE, TWO)
    await migrations.migrate(bare_database.url(), folder=tmp_path)
    (tmp_path / "20250101000001_two.sql").unlink()
    before = await _everything(bare_database)

    with pytest.raises(errors.DatabaseError, match=r"20250101000001.*newer release"):
        await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert await _everything(bare_database) == before


async def test_migration_older_than_the_newest_applied_is_refused(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """A file that comes late is not slipped in between."""
    _write(tmp_path, ONE)
    await migrations.migrate(bare_database.url(), folder=tmp_path)
    (tmp_path / "20240101000000_late.sql").write_text(TWO)

    with pytest.raises(errors.SettingsError, match='run "make generate"'):
        await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert await _tables(bare_database) == ["one"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["first.sql"], "not a valid migration name"),
        (["20250101000000_a.sql", "20250101000000_b.sql"], "same number"),
    ],
    ids=["unnumbered", "twice"],
)
def test_badly_named_files_are_refused(tmp_path: Path, names: list[str], problem: str) -> None:
    """A name without a number, or a number used twice, is an error before anything runs."""
    for name in names:
        (tmp_path / name).write_text(ONE)

    with pytest.raises(errors.SettingsError, match=problem):
        migrations.list_migrations(tmp_path)


async def test_migrate_says_when_nobody_answers(tmp_path: Path) -> None:
    """An unreachable database is an outage."""
    with pytest.raises(errors.DatabaseUnavailable):
        await migrations.migrate("postgresql://nobody@127.0.0.1:1/postgres", folder=tmp_path)


async def test_our_own_migrations_are_found_and_apply(database: databases.Database) -> None:
    """Without a folder the runner takes the migrations of this checkout, all of them applied."""
    assert migrations.list_migrations()
    assert await migrations.list_pending(database.url()) == []


async def test_the_digest_file_is_up_to_date(bare_database: databases.Database) -> None:
    """It is what the migrations make on this Postgres; measuring leaves the database empty."""
    before = await _everything(bare_database)

    content = await migrations.compute_digests(bare_database.url())

    path = migrations.default_folder().parent / schema_digests.NAME
    is_fresh = path.read_text("utf-8") == content
    assert is_fresh, STALE
    assert await _everything(bare_database) == before


# The same as ONE and TWO in one file of another name, and with a function.
FUNCTION = """
create function public.three(p_of int) returns int language plpgsql set search_path = '' as $$
begin
  return p_of + 3;  -- three more
end;
$$;
"""
TOGETHER = """
-- Both tables.
create table public.one (
  id int primary key  /* the key */
);
insert into one values (1);
create table public.two (id int references public.one);
comment on table public.two is 'Refers to one.';
create function public.three(p_of int) returns int language plpgsql set search_path = '' as $$
begin
  -- This comment is another one.
  return p_of+3;
end;
$$;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder for migrations; the file of digests stands beside it."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    return folder


async def test_a_database_of_an_equal_schema_is_recorded_anew_and_used(
    bare_database: databases.Database, folder: Path
) -> None:
    """Files that were merged, renamed and commented differently make the same; nothing runs."""
    _write(folder, ONE, TWO, FUNCTION)
    await migrations.migrate(bare_database.url(), folder=folder)
    conn = await bare_database.connect()
    await conn.execute("insert into public.one values (2)")
    for file in migrations.list_migrations(folder):
        file.path.unlink()
    (folder / "20260101000000_together.sql").write_text(TOGETHER)
    async with databases.open_clone(bare_database.server, databases.BARE) as empty:
        await _measured(empty, folder)
    (folder / "20260101000001_next.sql").write_text("create table public.four ();")
    before = await _stamp(bare_database)

    assert await migrations.list_pending(bare_database.url(), folder=folder) == [
        "20260101000001_next"
    ]
    assert await _stamp(bare_database) == before
    assert await migrations.migrate(bare_database.url(), folder=folder) == ["20260101000001_next"]

    recorded = await conn.execute(
        "select version, name from supabase_migrations.schema_migrations order by version"
    )
    assert await recorded.fetchall() == [("20260101000000", "together"), ("20260101000001", "next")]
    assert (await _stamp(bare_database))["migrations"] == [
        "20260101000000_together",
        "20260101000001_next",
    ]
    assert await _tables(bare_database) == ["four", "one", "two"]
    assert await migrations.migrate(bare_database.url(), folder=folder) == []


async def test_a_database_of_equal_schema_without_new_files_is_recorded_anew(
    bare_database: databases.Database, folder: Path
) -> None:
    """A comment changed: nothing waits, and the history has the new text."""
    _write(folder, ONE)
    await migrations.migrate(bare_database.url(), folder=folder)
    _write(folder, ONE.replace("the first", "another comment"))
    async with databases.open_clone(bare_database.server, databases.BARE) as empty:
        await _measured(empty, folder)

    assert await migrations.migrate(bare_database.url(), folder=folder) == []

    conn = await bare_database.connect()
    found = await conn.execute("select statements[1] from supabase_migrations.schema_migrations")
    assert "another comment" in str(await found.fetchone())


@pytest.mark.parametrize(
    "other",
    [
        ONE.replace("int primary", "bigint primary"),
        ONE.replace("(1)", "(2)"),
        f"{ONE}create index on public.one (id);",
        f"{ONE}grant select on public.one to anon;",
    ],
    ids=["column", "row", "index", "grant"],
)
async def test_a_database_of_another_schema_is_refused_and_left_as_it_was(
    bare_database: databases.Database, folder: Path, other: str
) -> None:
    """The error says which version made it and how to start another one."""
    _write(folder, ONE)
    await migrations.migrate(bare_database.url(), folder=folder)
    conn = await bare_database.connect()
    await conn.execute(
        "update supabase_migrations.pagewarden_schema set pagewarden_version = '0.0.7'"
    )
    before = await _everything(bare_database)
    _write(folder, other, TWO)
    async with databases.open_clone(bare_database.server, databases.BARE) as empty:
        await _measured(empty, folder)

    for attempt in (migrations.migrate, migrations.list_pending):
        with pytest.raises(
            errors.DatabaseError,
            match=r"created by Pagewarden 0\.0\.7 on .*"
            r"To create a new database alongside it, set PAGEWARDEN_DATABASE_URL",
        ):
            await attempt(bare_database.url(), folder=folder)

    assert await _everything(bare_database) == before


async def test_a_database_cannot_be_compared_with_a_stale_digest_file(
    bare_database: databases.Database, folder: Path
) -> None:
    """An empty one needs no comparison; another one is left alone, and a developer is told why."""
    _write(folder, ONE)
    await _measured(bare_database, folder)
    _write(folder, ONE.replace("int primary", "bigint primary"))
    await migrations.migrate(bare_database.url(), folder=folder)
    before = await _everything(bare_database)
    _write(folder, ONE.replace("int primary", "smallint primary"))

    with pytest.raises(errors.SettingsError, match='run "make generate"'):
        await migrations.migrate(bare_database.url(), folder=folder)

    assert await _everything(bare_database) == before


async def test_a_first_migration_that_makes_something_else_is_undone(
    bare_database: databases.Database, folder: Path
) -> None:
    """What the files make is compared before it is committed; here the database interferes."""
    _write(folder, ONE)
    await _measured(bare_database, folder)
    conn = await bare_database.connect()
    await conn.execute("alter default privileges in schema public grant select on tables to anon")
    before = await _everything(bare_database)

    with pytest.raises(
        errors.DatabaseError, match=r"did not produce the expected schema .* nothing was changed"
    ):
        await migrations.migrate(bare_database.url(), folder=folder)

    assert await _everything(bare_database) == before


async def test_a_database_without_a_stamp_is_compared_as_it_is(
    database: databases.Database,
) -> None:
    """The Supabase CLI leaves no stamp: rows in use do not count, tables of others neither."""
    _require_fresh_digests()
    conn = await database.connect()
    await conn.execute("drop table supabase_migrations.pagewarden_schema")
    await conn.execute("update public.lanes set description = 'Mine.'")
    await conn.execute("create table public.invoices (id int)")

    assert await migrations.list_pending(database.url()) == []
    assert await migrations.migrate(database.url()) == []

    assert (await _stamp(database))["migrations"] == [f.label for f in migrations.list_migrations()]
    await conn.execute("drop table supabase_migrations.pagewarden_schema")
    await conn.execute("alter table public.lanes add column mine text")
    before = await _everything(database)
    with pytest.raises(errors.DatabaseError, match="without a version stamp"):
        await migrations.migrate(database.url())
    assert await _everything(database) == before


async def test_a_stamp_older_than_the_history_does_not_count(
    bare_database: databases.Database, folder: Path
) -> None:
    """The Supabase CLI applied the second file after our runner had applied the first."""
    _write(folder, ONE, TWO)
    await _measured(bare_database, folder)
    (folder / "20250101000001_two.sql").rename(folder / "20250101000001_two.later")
    await migrations.migrate(bare_database.url(), folder=folder)
    (folder / "20250101000001_two.later").rename(folder / "20250101000001_two.sql")
    conn = await bare_database.connect()
    await conn.execute(TWO.encode())
    await conn.execute(
        "insert into supabase_migrations.schema_migrations values ('20250101000001', '{}', 'two')"
    )

    assert await migrations.migrate(bare_database.url(), folder=folder) == []

    assert len((await _stamp(bare_database))["migrations"]) == 2


async def test_tables_of_others_in_public_are_left_alone(
    bare_database: databases.Database,
) -> None:
    """Other names do not clash, and are no part of what is compared."""
    conn = await bare_database.connect()
    await conn.execute("create table public.invoices (id int primary key, note text)")
    await conn.execute("insert into public.invoices values (1, 'paid')")
    await conn.execute(
        "create function public.total() returns int language sql as 'select count(*) from invoices'"
    )

    await migrations.migrate(bare_database.url())

    assert (await _stamp(bare_database))["schema_digest"] is not None
    assert await migrations.list_pending(bare_database.url()) == []
    assert await (await conn.execute("select public.total(), note from invoices")).fetchone() == (
        1,
        "paid",
    )


async def test_tables_of_others_with_our_names_are_named_before_anything_is_done(
    bare_database: databases.Database,
) -> None:
    """All of them at once; the database is as it was."""
    _require_fresh_digests()
    conn = await bare_database.connect()
    await conn.execute("create table public.documents (title text)")
    await conn.execute("create function public.has_role() returns int language sql as 'select 1'")
    before = await _everything(bare_database)

    for attempt in (migrations.list_pending, migrations.migrate):
        with pytest.raises(
            errors.DatabaseError,
            match=r"public\.documents, public\.has_role\(\) already exist .*nothing was changed",
        ):
            await attempt(bare_database.url())

    assert await _everything(bare_database) == before


async def test_migrations_of_others_in_the_history_are_refused(
    bare_database: databases.Database, folder: Path
) -> None:
    """Another project is not taken for an old one of ours, and stays as it is."""
    _require_fresh_digests()
    conn = await bare_database.connect()
    theirs = folder / "20230101000000_theirs.sql"
    theirs.write_text("create table public.theirs ();")
    await migrations.migrate(bare_database.url(), folder=folder)
    await conn.execute("drop table supabase_migrations.pagewarden_schema")
    before = await _everything(bare_database)

    with pytest.raises(errors.DatabaseError, match="unknown here: 20230101000000_theirs"):
        await migrations.migrate(bare_database.url())

    assert await _everything(bare_database) == before


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (None, "grant the CREATE privilege on this database"),
        (
            "create extension if not exists file_fdw\n  with schema extensions;",
            'as a superuser, run "create extension if not exists file_fdw with schema extensions"',
        ),
    ],
    ids=["ours", "untrusted"],
)
async def test_a_role_that_may_not_create_is_told_what_it_lacks(
    bare_database: databases.Database, folder: Path, text: str | None, hint: str
) -> None:
    """Our own migrations want to create in the database; an extension may want a superuser."""
    role = f"limited_{uuid.uuid4().hex[:8]}"
    admin = await bare_database.connect(cluster.SUPERUSER)
    await admin.execute(
        f"create role {role} login password '{bare_database.server.password}'".encode()
    )
    await admin.execute(f"grant usage, create on schema public to {role}".encode())
    if text is not None:
        (folder / "20250101000000_extension.sql").write_text(text)
        await admin.execute(f"grant create on database {bare_database.name} to {role}".encode())
    before = await _everything(bare_database)

    try:
        with pytest.raises(errors.DatabaseError, match="permission denied") as caught:
            await migrations.migrate(
                bare_database.url(role), folder=folder if text is not None else None
            )
    finally:
        after = await _everything(bare_database)
        await admin.execute(f"drop owned by {role}".encode())
        await admin.execute(f"drop role {role}".encode())

    assert hint in str(caught.value)
    assert caught.value.sqlstate == "42501"
    assert after == before
