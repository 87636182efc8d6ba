from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.local import migrations

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support import databases

ONE = "-- the first\ncreate table public.one (id int primary key);\ninsert into one values (1);\n"
TWO = "create table public.two (id int references public.one);\n"


def _write(folder: Path, *texts: str) -> None:
    names = ("one", "two", "three")
    for number, text in enumerate(texts):
        (folder / f"2025010100000{number}_{names[number]}.sql").write_text(text)


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

    assert await migrations.pending(bare_database.url(), folder=tmp_path) == ["20250101000001_two"]
    assert await migrations.migrate(bare_database.url(), folder=tmp_path) == ["20250101000001_two"]
    assert await migrations.migrate(bare_database.url(), folder=tmp_path) == []


async def test_pending_changes_nothing(bare_database: databases.Database, tmp_path: Path) -> None:
    """Asking leaves no trace, not even the history table."""
    _write(tmp_path, ONE)

    assert await migrations.pending(bare_database.url(), folder=tmp_path) == ["20250101000000_one"]

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
    _write(tmp_path, ONE, TWO, text)

    with pytest.raises(
        errors.DatabaseError,
        match=rf"20250101000002_three\.sql, line {line}: .*{sqlstate}.*nothing of this file",
    ) as caught:
        await migrations.migrate(bare_database.url(), folder=tmp_path)

    assert caught.value.sqlstate == sqlstate
    assert await _tables(bare_database) == ["one", "two"]
    pending = await migrations.pending(bare_database.url(), folder=tmp_path)
    assert pending == ["20250101000002_three"]


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

    with pytest.raises(errors.DatabaseError, match=r"20250101000001.*newer Pagewarden"):
        await migrations.migrate(bare_database.url(), folder=tmp_path)


async def test_migration_older_than_the_newest_applied_is_refused(
    bare_database: databases.Database, tmp_path: Path
) -> None:
    """A file that comes late is not slipped in between."""
    _write(tmp_path, ONE)
    await migrations.migrate(bare_database.url(), folder=tmp_path)
    (tmp_path / "20240101000000_late.sql").write_text(TWO)

    with pytest.raises(errors.DatabaseError, match=r"20240101000000_late\.sql .*20250101000000"):
        await migrations.migrate(bare_database.url(), folder=tmp_path)


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["first.sql"], "not named like a migration"),
        (["20250101000000_a.sql", "20250101000000_b.sql"], "same number"),
    ],
    ids=["unnumbered", "twice"],
)
def test_badly_named_files_are_refused(tmp_path: Path, names: list[str], problem: str) -> None:
    """A name without a number, or a number used twice, is an error before anything runs."""
    for name in names:
        (tmp_path / name).write_text(ONE)

    with pytest.raises(errors.SettingsError, match=problem):
        migrations.find(tmp_path)


async def test_migrate_says_when_nobody_answers(tmp_path: Path) -> None:
    """An unreachable database is an outage."""
    with pytest.raises(errors.DatabaseAway):
        await migrations.migrate("postgresql://nobody@127.0.0.1:1/postgres", folder=tmp_path)


async def test_our_own_migrations_are_found_and_apply(database: databases.Database) -> None:
    """Without a folder the runner takes the migrations of this checkout, all of them applied."""
    assert migrations.find()
    assert await migrations.pending(database.url()) == []
