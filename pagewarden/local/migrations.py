"""Apply supabase/migrations in order, recorded where the Supabase CLI records them.

The CLI knows which files ran. The runner also records, as a stamp, a digest of what they made, and
compares it with that of its own files (schema_digests.py):

- An empty database gets all files in one transaction, and what they made is compared.
- A database with the schema of our files, or of the first of them, is used, and gets the rest,
  each file in a transaction of its own. Renamed files and other comments are only recorded.
- A database with any other schema is refused and stays as it is.

A database without a stamp, made by `supabase db push`, is compared by its live catalog.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from pagewarden import errors
from pagewarden.local import catalog, schema_digests, schema_lock, statements

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Sequence
    from typing import LiteralString

_FILE_NAME = re.compile(r"(?P<version>\d{14})_(?P<name>\w+)\.sql")

# How to go on when a database is refused; the runner itself does not know where its URL is from.
NAME_ANOTHER = (
    "name another database in PAGEWARDEN_DATABASE_URL, and upload or import the files again"
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

_RECORDED = """
select concat_ws('_', version, name) from supabase_migrations.schema_migrations order by version
"""

_RECORD = """
insert into supabase_migrations.schema_migrations (version, name, statements)
values (%s, %s, %s)
"""

_FORGET = """
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

_FIRST_NAMES = 5

# Settings, roles and temporary tables that one migration leaves are not the next one's.
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
    """The migrations of a folder, their texts, and what is known of what they make."""

    files: list[Migration]
    scripts: list[str]
    known: schema_digests.SchemaDigests

    @property
    def labels(self) -> list[str]:
        return [file.label for file in self.files]


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What the runner recorded of a database; digest is None where it was not known."""

    pagewarden_version: str
    migrations: list[str]
    texts: str
    digest: catalog.Digest | None
    stamped_at: dt.datetime


@dataclass(frozen=True, slots=True)
class _Place:
    """How many of the files a database has, what its history says, and whether that is current."""

    count: int
    recorded: list[str]
    is_stamped: bool


async def migrate(
    url: str, *, folder: Path | None = None, alternative: str = NAME_ANOTHER
) -> list[str]:
    """Apply what is not applied yet, and return the names.

    Of two at once the second waits and finds nothing left to do. alternative says what to do where
    the database has another schema.
    """
    release = _load(folder)
    applied: list[str] = []
    async with _connected(url) as conn:
        while labels := await _advance(conn, release, alternative):
            applied += labels
    return applied


async def pending(
    url: str, *, folder: Path | None = None, alternative: str = NAME_ANOTHER
) -> list[str]:
    """Name what migrate would apply, changing nothing; raise what it would raise before it does."""
    release = _load(folder)
    async with _connected(url) as conn:
        place = await _locate(conn, release, alternative)
        return release.labels[place.count :]


async def measure(url: str, *, folder: Path | None = None) -> str:
    """Make the content of supabase/schema.digest; the database is empty, and is so afterwards."""
    release = _load(folder)
    digests, objects = [], set[str]()
    async with _connected(url) as conn, conn.transaction(force_rollback=True):
        for migration, script in zip(release.files, release.scripts, strict=True):
            await _apply(conn, migration, script)
            digests.append(await catalog.digest(conn))
            objects |= await catalog.objects(conn)
    return schema_digests.dump(release.labels, release.known.texts[1:], digests, objects)


def find(folder: Path | None = None) -> list[Migration]:
    """List the migrations in order, from our own folder unless another one is given."""
    folder = folder or own_folder()
    files = [_parse(path) for path in sorted(folder.glob("*.sql"))]
    for one, other in itertools.pairwise(files):
        if one.version == other.version:
            raise errors.SettingsError(
                f"{one.path.name} and {other.path.name} have the same number; rename one of them"
            )
    return files


def _load(folder: Path | None) -> _Release:
    folder = folder or own_folder()
    files = find(folder)
    scripts = [_read(file) for file in files]
    return _Release(files, scripts, schema_digests.load(folder, scripts))


def own_folder() -> Path:
    """Find the migrations of this installation or checkout."""
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
            f"the migrations cannot be recorded: {exc}", sqlstate=exc.sqlstate, hint=_advice(exc)
        ) from exc


def _is_away(exc: psycopg.Error) -> bool:
    return exc.sqlstate is None and isinstance(exc, psycopg.OperationalError)


async def _holds(conn: psycopg.AsyncConnection, query: LiteralString) -> bool:
    return await (await conn.execute(query)).fetchone() == (True,)


async def _recorded(conn: psycopg.AsyncConnection) -> list[str]:
    if not await _holds(conn, _HAS_HISTORY):
        return []
    return [label for (label,) in await (await conn.execute(_RECORDED)).fetchall()]


async def _read_stamp(conn: psycopg.AsyncConnection) -> _Stamp | None:
    if not await _holds(conn, _HAS_STAMP):
        return None
    row = await (await conn.execute(_READ_STAMP)).fetchone()
    if row is None:
        return None
    version, labels, texts, schema, rows, stamped_at = row
    digest = catalog.Digest(schema, rows) if schema else None
    return _Stamp(version, labels, texts, digest, stamped_at)


async def _locate(conn: psycopg.AsyncConnection, release: _Release, alternative: str) -> _Place:
    """Find out how many of our files the database has; refuse one that has something else."""
    recorded = await _recorded(conn)
    if not recorded:
        await _require_no_clash(conn, release)
        return _Place(0, recorded, is_stamped=False)
    stamp = await _read_stamp(conn)
    if stamp is not None and stamp.migrations == recorded:
        counts = _counts_of_stamp(release, stamp)
    elif set(recorded) <= {*release.labels, *(stamp.migrations if stamp else ())}:
        stamp = None
        counts = await _counts_of_live(conn, release)
    else:
        stamp, counts = None, []
    if not counts:
        raise _refusal(release, recorded, stamp, alternative)
    same = [count for count in counts if release.labels[:count] == recorded]
    count = max(same or counts)
    is_stamped = stamp is not None and bool(same) and stamp.texts == release.known.texts[count]
    return _Place(count, recorded, is_stamped=is_stamped)


def _counts_of_stamp(release: _Release, stamp: _Stamp) -> list[int]:
    """Say after how many of our files a database is as this stamp says; there may be several."""
    return [
        count
        for count, (texts, digest) in enumerate(
            zip(release.known.texts, release.known.digests, strict=True)
        )
        if count and (texts == stamp.texts or (digest is not None and digest == stamp.digest))
    ]


async def _counts_of_live(conn: psycopg.AsyncConnection, release: _Release) -> list[int]:
    """Compare what is there; rows are left out, because they have changed since."""
    if not release.known.objects:
        return []
    live = await catalog.digest_schema(conn, only=release.known.objects)
    return [
        count
        for count, digest in enumerate(release.known.digests)
        if digest is not None and digest.schema == live
    ]


async def _require_no_clash(conn: psycopg.AsyncConnection, release: _Release) -> None:
    """Refuse a database in which other objects have names that ours will have."""
    if clashes := sorted(release.known.objects & await catalog.objects(conn)):
        raise errors.DatabaseError(
            f"{_enumerate(clashes)} already exist in this database and are not recorded as ours; "
            "nothing was changed",
            hint=f"rename or move them, or {NAME_ANOTHER}",
        )


def _enumerate(names: Sequence[str]) -> str:
    more = len(names) - _FIRST_NAMES
    return ", ".join(names[:_FIRST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _refusal(
    release: _Release, recorded: Sequence[str], stamp: _Stamp | None, alternative: str
) -> errors.PagewardenError:
    start_another = f"To start a new one beside it, {alternative}; this one was not changed."
    if stamp is not None:
        who = f"Pagewarden {stamp.pagewarden_version} on {stamp.stamped_at:%Y-%m-%d}"
        is_newer = set(release.labels) < set(stamp.migrations)
    else:
        who = "a Pagewarden that left no stamp, or by other migrations"
        is_newer = set(release.labels) < set(recorded)
    ours = f"that of this Pagewarden, {_version()}"
    if not is_newer and not release.known.is_complete:
        return errors.SettingsError(
            f"{schema_digests.NAME} is not of these migrations, so the database cannot be compared "
            'with them; run "make generate"'
        )
    unknown = sorted(set(recorded) - set(release.labels))
    detail = f" (unknown here: {_enumerate(unknown)})" if unknown else ""
    newer = "It is from a newer Pagewarden: install that one. " if is_newer else ""
    return errors.DatabaseError(
        f"the database was made by {who}, and its schema is not {ours}{detail}. "
        f"{newer}{start_another}"
    )


def _version() -> str:
    return importlib.metadata.version("pagewarden")


async def _advance(conn: psycopg.AsyncConnection, release: _Release, alternative: str) -> list[str]:
    """Apply all files to an empty database, or the next one to another, in one transaction."""
    await conn.execute("discard all")
    async with conn.transaction():
        await schema_lock.acquire(conn)
        place = await _locate(conn, release, alternative)
        end = len(release.files) if place.count == 0 else place.count + 1
        labels = release.labels[place.count : end]
        if not labels and place.is_stamped:
            return []
        others = await catalog.objects(conn) if place.count == 0 else set()
        for migration, script in zip(
            release.files[place.count : end], release.scripts[place.count : end], strict=True
        ):
            await _apply(conn, migration, script)
        digest = release.known.digests[place.count + len(labels)]
        if labels and place.count == 0:
            digest = await _verified(conn, digest, others)
        await _record(conn, release, place, place.count + len(labels), digest)
    return labels


async def _verified(
    conn: psycopg.AsyncConnection, expected: catalog.Digest | None, others: set[str]
) -> catalog.Digest:
    """Compute the digest of what was made; `others` are the objects that were there before."""
    made = await catalog.digest(conn, only=await catalog.objects(conn) - others)
    if expected is not None and made != expected:
        raise errors.DatabaseError(
            "the migrations make another schema in this database than they should; nothing was "
            "changed",
            hint="look for default privileges and event triggers of this database, or use another "
            'server; in a checkout run "make generate"',
        )
    return made


async def _apply(conn: psycopg.AsyncConnection, migration: Migration, script: str) -> None:
    for statement in statements.split(script):
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
    await conn.execute(_RESET)


async def _record(
    conn: psycopg.AsyncConnection,
    release: _Release,
    place: _Place,
    count: int,
    digest: catalog.Digest | None,
) -> None:
    """Write down that the database has the first `count` files."""
    if not await _holds(conn, _HAS_HISTORY):
        await conn.execute(_CREATE_HISTORY)
    if not await _holds(conn, _HAS_STAMP):
        await conn.execute(_CREATE_STAMP)
    first = place.count
    if not place.is_stamped:
        await conn.execute(_FORGET, (place.recorded,))
        first = 0
    for migration, script in zip(
        release.files[first:count], release.scripts[first:count], strict=True
    ):
        texts = [statement.text for statement in statements.split(script)]
        await conn.execute(_RECORD, (migration.version, migration.name, texts))
    digests = (digest.schema, digest.rows) if digest else (None, None)
    stamp = (_version(), release.labels[:count], release.known.texts[count], *digests)
    await conn.execute(_STAMP, stamp)


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
        hint=_advice(exc, statement.text[statement.first_word :]),
    )


def _advice(exc: psycopg.Error, statement: str = "") -> str | None:
    """Say what to do where the server lacks an extension, or the role the right to create."""
    if statement.lower().startswith("create extension") and exc.sqlstate == "42501":
        return f'as a superuser, run "{" ".join(statement.split())}" in this database first'
    if exc.sqlstate == "42501" and "for database" in str(exc):
        return "the role of the URL needs the right to create in this database: grant create on it"
    return exc.diag.message_hint
