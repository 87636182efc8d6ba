"""Apply supabase/migrations in order, and record them where the Supabase CLI does.

The CLI records which files ran. The runner also records a digest of the resulting schema, the
stamp, and compares it with the digests of its own files (schema_digests.py):

- An empty database gets all files in one transaction, and the result is compared.
- A database with the schema of our files, or of the first of them, gets the remaining ones, each
  in its own transaction. Files with another name or other comments are only recorded.
- A database with any other schema is refused and stays unchanged.

A database without a stamp, created by `supabase db push`, is compared by its live catalog.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from pagewarden import data_files, errors
from pagewarden.local import catalog, schema_digests, sql_script

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from typing import LiteralString

# An arbitrary number that must not change.
_SCHEMA_LOCK = 7_240_001

_FILE_NAME = re.compile(r"(?P<version>\d{14})_(?P<name>\w+)\.sql")

# What to do when a database is refused; the caller knows where its URL comes from.
USE_ANOTHER_DATABASE = (
    "set PAGEWARDEN_DATABASE_URL to another database, and upload or import the files again"
)

_CREATE_HISTORY = """
create schema if not exists supabase_migrations;
create table supabase_migrations.schema_migrations (
  version text not null primary key,
  statements text[],
  name text
);
"""

_CREATE_STAMP = """
create table supabase_migrations.pagewarden_schema (
  is_one boolean primary key default true constraint pagewarden_schema_has_one_row check (is_one),
  pagewarden_version text not null,
  migrations text[] not null,
  texts text not null,
  schema_digest text,
  rows_digest text,
  stamped_at timestamptz not null default now()
);
comment on table supabase_migrations.pagewarden_schema is
  'What the migrations of Pagewarden made, as a digest; "pagewarden migrate" compares it.';
"""

_HAS_HISTORY = "select to_regclass('supabase_migrations.schema_migrations') is not null"
_HAS_STAMP = "select to_regclass('supabase_migrations.pagewarden_schema') is not null"

_READ_HISTORY = """
select concat_ws('_', version, name) from supabase_migrations.schema_migrations order by version
"""

_RECORD = """
insert into supabase_migrations.schema_migrations (version, name, statements)
values (%s, %s, %s)
"""

_DELETE_RECORDS = """
delete from supabase_migrations.schema_migrations
where concat_ws('_', version, name) = any (%s)
"""

_READ_STAMP = """
select pagewarden_version, migrations, texts, schema_digest, rows_digest, stamped_at
from supabase_migrations.pagewarden_schema
"""

_STAMP = """
insert into supabase_migrations.pagewarden_schema
  (pagewarden_version, migrations, texts, schema_digest, rows_digest)
values (%s, %s, %s, %s, %s)
on conflict (is_one) do update set
  pagewarden_version = excluded.pagewarden_version, migrations = excluded.migrations,
  texts = excluded.texts, schema_digest = excluded.schema_digest,
  rows_digest = excluded.rows_digest, stamped_at = excluded.stamped_at
"""

_MAX_NAMES = 5

# A migration must not see settings, roles and temporary tables of the one before.
_RESET = "reset session authorization; reset role; reset all; discard temp"


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


@dataclass(frozen=True, slots=True)
class _Release:
    """The migrations of a folder, their texts, and the digests of the schemas they create."""

    files: list[Migration]
    scripts: list[str]
    known: schema_digests.SchemaDigests

    @property
    def labels(self) -> list[str]:
        return [file.label for file in self.files]


@dataclass(frozen=True, slots=True)
class _SchemaStamp:
    """What the runner recorded in a database; digest is None if it was unknown."""

    pagewarden_version: str
    migrations: list[str]
    texts: str
    digest: catalog.DatabaseDigest | None
    stamped_at: dt.datetime


@dataclass(frozen=True, slots=True)
class _SchemaState:
    """The number of files applied, the recorded history, and whether the stamp is current."""

    count: int
    recorded: list[str]
    is_stamped: bool


async def migrate(
    url: str, *, folder: Path | None = None, alternative: str = USE_ANOTHER_DATABASE
) -> list[str]:
    """Apply the pending migrations, and return their names.

    A concurrent run waits, and then finds nothing to do. If the database has another schema, the
    error says `alternative`.
    """
    release = _load_release(folder)
    applied: list[str] = []
    async with _connect(url) as conn:
        while labels := await _apply_next(conn, release, alternative):
            applied += labels
        if applied:
            await _announce_schedules(conn)
    return applied


async def list_pending(
    url: str, *, folder: Path | None = None, alternative: str = USE_ANOTHER_DATABASE
) -> list[str]:
    """Return what migrate() would apply, with the same errors, but change nothing."""
    release = _load_release(folder)
    async with _connect(url) as conn:
        state = await _find_state(conn, release, alternative)
        return release.labels[state.count :]


async def compute_digests(url: str, *, folder: Path | None = None) -> str:
    """Return the content of supabase/schema.digest; the database must be empty, and stays so."""
    release = _load_release(folder)
    digests, objects = [], set[str]()
    async with _connect(url) as conn, conn.transaction(force_rollback=True):
        for migration, script in zip(release.files, release.scripts, strict=True):
            await _apply(conn, migration, script)
            digests.append(await catalog.compute_digest(conn))
            objects |= await catalog.list_objects(conn)
    return schema_digests.dump(release.labels, release.known.texts[1:], digests, objects)


async def lock_schema(conn: psycopg.AsyncConnection) -> None:
    """Wait until no other connection changes the schema, and lock it until the transaction ends.

    Concurrent GRANTs on one object fail. A session lock would not work through a pooler.
    """
    await conn.execute("select pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))


def list_migrations(folder: Path | None = None) -> list[Migration]:
    """Return the migrations in order, of the default folder unless another one is given."""
    folder = folder or default_folder()
    files = [_parse(path) for path in sorted(folder.glob("*.sql"))]
    for one, other in itertools.pairwise(files):
        if one.version == other.version:
            raise errors.SettingsError(
                f"{one.path.name} and {other.path.name} have the same number; rename one of them"
            )
    return files


def _load_release(folder: Path | None) -> _Release:
    folder = folder or default_folder()
    files = list_migrations(folder)
    scripts = [_read(file) for file in files]
    return _Release(files, scripts, schema_digests.load(folder, scripts))


def default_folder() -> Path:
    """Return the folder of migrations of this installation or checkout."""
    return data_files.find("supabase/migrations")


def _parse(path: Path) -> Migration:
    found = _FILE_NAME.fullmatch(path.name)
    if found is None:
        raise errors.SettingsError(
            f"{path} is not a valid migration name; use <14 digits>_<name>.sql, "
            "for example 20250131120000_documents.sql"
        )
    return Migration(found["version"], found["name"], path)


@contextlib.asynccontextmanager
async def _connect(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Connect, and translate errors of the database outside of a migration."""
    try:
        async with await psycopg.AsyncConnection.connect(
            url, autocommit=True, prepare_threshold=None
        ) as conn:
            yield conn
    except psycopg.Error as exc:
        if _is_connection_error(exc):
            raise errors.DatabaseUnavailable(f"cannot reach the database: {exc}") from exc
        raise errors.DatabaseError(
            f"cannot read or update the migration history: {exc}",
            sqlstate=exc.sqlstate,
            hint=_get_advice(exc),
        ) from exc


def _is_connection_error(exc: psycopg.Error) -> bool:
    return exc.sqlstate is None and isinstance(exc, psycopg.OperationalError)


async def _query_boolean(conn: psycopg.AsyncConnection, query: LiteralString) -> bool:
    return await (await conn.execute(query)).fetchone() == (True,)


async def _read_history(conn: psycopg.AsyncConnection) -> list[str]:
    if not await _query_boolean(conn, _HAS_HISTORY):
        return []
    return [label for (label,) in await (await conn.execute(_READ_HISTORY)).fetchall()]


async def _read_stamp(conn: psycopg.AsyncConnection) -> _SchemaStamp | None:
    if not await _query_boolean(conn, _HAS_STAMP):
        return None
    row = await (await conn.execute(_READ_STAMP)).fetchone()
    if row is None:
        return None
    version, labels, texts, schema, rows, stamped_at = row
    digest = catalog.DatabaseDigest(schema, rows) if schema else None
    return _SchemaStamp(version, labels, texts, digest, stamped_at)


async def _find_state(
    conn: psycopg.AsyncConnection, release: _Release, alternative: str
) -> _SchemaState:
    """Determine how many of our files the database has; raise if it has another schema."""
    recorded = await _read_history(conn)
    if not recorded:
        await _check_name_clashes(conn, release)
        return _SchemaState(0, recorded, is_stamped=False)
    stamp = await _read_stamp(conn)
    if stamp is not None and stamp.migrations == recorded:
        counts = _find_counts_by_stamp(release, stamp)
    elif set(recorded) <= {*release.labels, *(stamp.migrations if stamp else ())}:
        stamp = None
        counts = await _find_counts_by_catalog(conn, release)
    else:
        stamp, counts = None, []
    if not counts:
        raise _make_other_schema_error(release, recorded, stamp, alternative)
    same = [count for count in counts if release.labels[:count] == recorded]
    count = max(same or counts)
    is_stamped = stamp is not None and bool(same) and stamp.texts == release.known.texts[count]
    return _SchemaState(count, recorded, is_stamped=is_stamped)


def _find_counts_by_stamp(release: _Release, stamp: _SchemaStamp) -> list[int]:
    """Return the numbers of our files after which the schema matches this stamp."""
    return [
        count
        for count, (texts, digest) in enumerate(
            zip(release.known.texts, release.known.digests, strict=True)
        )
        if count and (texts == stamp.texts or (digest is not None and digest == stamp.digest))
    ]


async def _find_counts_by_catalog(conn: psycopg.AsyncConnection, release: _Release) -> list[int]:
    """Return the numbers of our files after which the schema matches the database, without rows."""
    if not release.known.objects:
        return []
    live = await catalog.digest_schema(conn, names=release.known.objects)
    return [
        count
        for count, digest in enumerate(release.known.digests)
        if digest is not None and digest.schema == live
    ]


async def _check_name_clashes(conn: psycopg.AsyncConnection, release: _Release) -> None:
    """Raise if the database has other objects with names that ours will have."""
    if clashes := sorted(release.known.objects & await catalog.list_objects(conn)):
        raise errors.DatabaseError(
            f"{_format_names(clashes)} already exist in this database, but were not created by "
            "Pagewarden; nothing was changed",
            hint=f"rename or move them, or {USE_ANOTHER_DATABASE}",
        )


def _format_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _make_other_schema_error(
    release: _Release, recorded_names: Sequence[str], stamp: _SchemaStamp | None, alternative: str
) -> errors.PagewardenError:
    start_another = (
        f"To create a new database alongside it, {alternative}; the existing one was not changed."
    )
    if stamp is not None:
        creator = f"Pagewarden {stamp.pagewarden_version} on {stamp.stamped_at:%Y-%m-%d}"
        is_newer = set(release.labels) < set(stamp.migrations)
    else:
        creator = "a Pagewarden release without a version stamp, or by other migrations"
        is_newer = set(release.labels) < set(recorded_names)
    ours = f"that of this release, {_get_version()}"
    if not is_newer and not release.known.is_complete:
        return errors.SettingsError(
            f"{schema_digests.NAME} does not match these migrations, so the database cannot be "
            'compared with them; run "make generate"'
        )
    unknown = sorted(set(recorded_names) - set(release.labels))
    detail = f" (unknown here: {_format_names(unknown)})" if unknown else ""
    newer = (
        "It was created by a newer release of Pagewarden: install that release. "
        if is_newer
        else ""
    )
    return errors.DatabaseError(
        f"the database was created by {creator}, and its schema does not match {ours}{detail}. "
        f"{newer}{start_another}"
    )


def _get_version() -> str:
    return importlib.metadata.version("pagewarden")


async def _apply_next(
    conn: psycopg.AsyncConnection, release: _Release, alternative: str
) -> list[str]:
    """Apply all files to an empty database, otherwise the next one, in one transaction."""
    await conn.execute("discard all")
    async with conn.transaction():
        await lock_schema(conn)
        state = await _find_state(conn, release, alternative)
        end = len(release.files) if state.count == 0 else state.count + 1
        labels = release.labels[state.count : end]
        if not labels and state.is_stamped:
            return []
        others = await catalog.list_objects(conn) if state.count == 0 else set()
        for migration, script in zip(
            release.files[state.count : end], release.scripts[state.count : end], strict=True
        ):
            await _apply(conn, migration, script)
        digest = release.known.digests[state.count + len(labels)]
        if labels and state.count == 0:
            digest = await _verify_digest(conn, digest, others)
        await _record(conn, release, state, state.count + len(labels), digest)
    return labels


async def _announce_schedules(conn: psycopg.AsyncConnection) -> None:
    """Write the jobs of pg_cron again: it may miss those of a large transaction."""
    query: LiteralString = "select to_regprocedure('private.apply_schedules(boolean)') is not null"
    if await _query_boolean(conn, query):
        await conn.execute("select private.apply_schedules(true)")


async def _verify_digest(
    conn: psycopg.AsyncConnection, expected: catalog.DatabaseDigest | None, excluded_names: set[str]
) -> catalog.DatabaseDigest:
    """Return the digest of the created objects, `excluded_names` excluded; raise if it differs."""
    created = await catalog.compute_digest(
        conn, names=await catalog.list_objects(conn) - excluded_names
    )
    if expected is not None and created != expected:
        raise errors.DatabaseError(
            "the migrations did not produce the expected schema in this database; nothing was "
            "changed",
            hint="check the default privileges and event triggers of this database, or use another "
            'server; in a checkout run "make generate"',
        )
    return created


async def _apply(conn: psycopg.AsyncConnection, migration: Migration, script: str) -> None:
    for statement in sql_script.split(script):
        try:
            await conn.execute(statement.text)
        except psycopg.Error as exc:
            raise _make_migration_error(migration, statement, exc) from exc
        if conn.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise errors.DatabaseError(
                f"{_format_location(migration, statement)} ends the transaction; the statements "
                "before it were applied but not recorded",
                hint="remove begin, commit and rollback from the file",
            )
    await conn.execute(_RESET)


async def _record(
    conn: psycopg.AsyncConnection,
    release: _Release,
    state: _SchemaState,
    count: int,
    digest: catalog.DatabaseDigest | None,
) -> None:
    """Record that the database has the first `count` files."""
    if not await _query_boolean(conn, _HAS_HISTORY):
        await conn.execute(_CREATE_HISTORY)
    if not await _query_boolean(conn, _HAS_STAMP):
        await conn.execute(_CREATE_STAMP)
    first = state.count
    if not state.is_stamped:
        await conn.execute(_DELETE_RECORDS, (state.recorded,))
        first = 0
    for migration, script in zip(
        release.files[first:count], release.scripts[first:count], strict=True
    ):
        texts = [statement.text for statement in sql_script.split(script)]
        await conn.execute(_RECORD, (migration.version, migration.name, texts))
    digests = (digest.schema, digest.rows) if digest else (None, None)
    stamp = (_get_version(), release.labels[:count], release.known.texts[count], *digests)
    await conn.execute(_STAMP, stamp)


def _read(migration: Migration) -> str:
    try:
        return migration.path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.SettingsError(f"{migration.path} cannot be read: {exc}") from exc


def _format_location(
    migration: Migration, statement: sql_script.Statement, position: int | None = None
) -> str:
    return f"{migration.path.name}, line {statement.find_line(position)}"


def _make_migration_error(
    migration: Migration, statement: sql_script.Statement, exc: psycopg.Error
) -> errors.DatabaseError:
    if _is_connection_error(exc):
        return errors.DatabaseUnavailable(
            f"the connection was lost during {migration.path.name}; none of it was applied"
        )
    diag = exc.diag
    position = int(diag.statement_position) if diag.statement_position else None
    return errors.DatabaseError(
        f"{_format_location(migration, statement, position)}: {diag.message_primary or exc} "
        f"(SQLSTATE {exc.sqlstate}); nothing in this file was applied",
        sqlstate=exc.sqlstate,
        hint=_get_advice(exc, statement.text[statement.first_word :]),
    )


def _get_advice(exc: psycopg.Error, statement: str = "") -> str | None:
    """Return what to do if the server lacks an extension, or the role the right to create."""
    if statement.lower().startswith("create extension") and exc.sqlstate == "42501":
        return f'as a superuser, run "{" ".join(statement.split())}" in this database first'
    if exc.sqlstate == "42501" and "for database" in str(exc):
        return "grant the CREATE privilege on this database to the role in the URL"
    return exc.diag.message_hint
