"""Apply supabase/migrations in order, recorded where the Supabase CLI records them.

So `supabase db push` and this runner agree on what is applied, whoever did it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from pagewarden import errors
from pagewarden.local import schema_lock, statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_FILE_NAME = re.compile(r"(?P<version>\d{14})_(?P<name>\w+)\.sql")

_CREATE_HISTORY = """
create schema if not exists supabase_migrations;
create table supabase_migrations.schema_migrations (
  version text not null primary key,
  statements text[],
  name text
);
"""

_HAS_HISTORY = "select to_regclass('supabase_migrations.schema_migrations') is not null"

_RECORDED = "select version from supabase_migrations.schema_migrations order by version"

_RECORD = """
insert into supabase_migrations.schema_migrations (version, name, statements)
values (%s, %s, %s)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the folder."""

    version: str
    name: str
    path: Path

    @property
    def label(self) -> str:
        """Name of the file without its ending."""
        return self.path.stem


async def migrate(url: str, *, folder: Path | None = None) -> list[str]:
    """Apply what is not applied yet, each file in one transaction; return their names.

    Of two at once the second waits and finds nothing left to do.
    """
    files = find(folder)
    applied = []
    async with _connected(url) as conn:
        while migration := await _apply_next(conn, files):
            applied.append(migration.label)
    return applied


async def pending(url: str, *, folder: Path | None = None) -> list[str]:
    """Name what migrate would apply, changing nothing."""
    files = find(folder)
    async with _connected(url) as conn:
        return [migration.label for migration in _waiting(files, await _recorded(conn))]


def find(folder: Path | None = None) -> list[Migration]:
    """List the migrations in order, from our own folder unless another one is given."""
    folder = folder or _own_folder()
    files = [_parse(path) for path in sorted(folder.glob("*.sql"))]
    for one, other in itertools.pairwise(files):
        if one.version == other.version:
            raise errors.SettingsError(
                f"{one.path.name} and {other.path.name} have the same number; rename one of them"
            )
    return files


def _own_folder() -> Path:
    package = Path(__file__).parent.parent
    for folder in (package / "_migrations", package.parent / "supabase" / "migrations"):
        if folder.is_dir():
            return folder
    raise errors.SettingsError("the migrations are missing from this installation; install again")


def _parse(path: Path) -> Migration:
    found = _FILE_NAME.fullmatch(path.name)
    if found is None:
        raise errors.SettingsError(
            f"{path} is not named like a migration; call it <14 digits>_<name>.sql, "
            "for example 20250131120000_documents.sql"
        )
    return Migration(found["version"], found["name"], path)


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Connect, and turn what the database says outside of a migration into an error of ours."""
    try:
        async with await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=None
        ) as conn:
            yield conn
    except psycopg.Error as exc:
        if _is_away(exc):
            raise errors.DatabaseAway(f"cannot reach the database: {exc}") from exc
        raise errors.DatabaseError(
            f"the migrations cannot be recorded: {exc}", sqlstate=exc.sqlstate
        ) from exc


def _is_away(exc: psycopg.Error) -> bool:
    return exc.sqlstate is None and isinstance(exc, psycopg.OperationalError)


async def _recorded(conn: psycopg.AsyncConnection) -> list[str]:
    has_history = await (await conn.execute(_HAS_HISTORY)).fetchone()
    if has_history != (True,):
        return []
    return [version for (version,) in await (await conn.execute(_RECORDED)).fetchall()]


def _waiting(files: Sequence[Migration], recorded: Sequence[str]) -> list[Migration]:
    if unknown := sorted(set(recorded) - {file.version for file in files}):
        raise errors.DatabaseError(
            f"the database has migrations that are not in the folder: {', '.join(unknown)}",
            hint="it was migrated by a newer Pagewarden; install that one",
        )
    waiting = [file for file in files if file.version not in set(recorded)]
    newest = max(recorded, default="")
    if late := [file.path.name for file in waiting if file.version < newest]:
        raise errors.DatabaseError(
            f"{', '.join(late)} would come before {newest}, which is applied already",
            hint="give it a number after the newest one",
        )
    return waiting


async def _apply_next(
    conn: psycopg.AsyncConnection, files: Sequence[Migration]
) -> Migration | None:
    # Settings and roles that one migration leaves behind are not the next one's.
    await conn.execute("discard all")
    async with conn.transaction():
        await schema_lock.acquire(conn)
        if await (await conn.execute(_HAS_HISTORY)).fetchone() != (True,):
            await conn.execute(_CREATE_HISTORY)
        for migration in _waiting(files, await _recorded(conn)):
            await _apply(conn, migration)
            return migration
    return None


async def _apply(conn: psycopg.AsyncConnection, migration: Migration) -> None:
    script = list(statements.split(_read(migration)))
    for statement in script:
        try:
            await conn.execute(statement.text)
        except psycopg.Error as exc:
            raise _refused(migration, statement, exc) from exc
        if conn.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise errors.DatabaseError(
                f"{_where(migration, statement)} ends the transaction, so what came before it "
                "stays applied and is not recorded",
                hint="take begin, commit and rollback out of the file",
            )
    # The file may have taken on a role that may not write here.
    await conn.execute("reset role")
    texts = [statement.text for statement in script]
    await conn.execute(_RECORD, (migration.version, migration.name, texts))


def _read(migration: Migration) -> str:
    try:
        return migration.path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.SettingsError(f"{migration.path} cannot be read: {exc}") from exc


def _where(
    migration: Migration, statement: statements.Statement, position: int | None = None
) -> str:
    return f"{migration.path.name}, line {statement.line_at(position)}"


def _refused(
    migration: Migration, statement: statements.Statement, exc: psycopg.Error
) -> errors.DatabaseError:
    if _is_away(exc):
        return errors.DatabaseAway(
            f"the connection was lost during {migration.path.name}; nothing of it was applied"
        )
    diag = exc.diag
    position = int(diag.statement_position) if diag.statement_position else None
    return errors.DatabaseError(
        f"{_where(migration, statement, position)}: {diag.message_primary or exc} "
        f"(SQLSTATE {exc.sqlstate}); nothing of this file was applied",
        sqlstate=exc.sqlstate,
        hint=diag.message_hint,
    )
