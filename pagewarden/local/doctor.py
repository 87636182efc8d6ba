"""Look at everything Pagewarden needs, and say what is missing and how to mend it."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from pagewarden import errors
from pagewarden.local import migrations, stack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.settings import Settings

_FREE_GIGABYTES = 1
_OLDEST_POSTGRES = 150000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; remedy is empty when it is well."""

    subject: str
    state: str
    remedy: str = ""


async def examine(settings: Settings) -> AsyncIterator[Finding]:
    """Look at one thing after the other; later ones are left out when they make no sense."""
    yield Finding("Python", sys.version.split()[0])
    yield _disk(settings)
    try:
        async with stack.located(settings) as found:
            yield Finding("Server", found.place)
            alternative = stack.ANOTHER_HOME if found.server else migrations.NAME_ANOTHER
            async for finding in _database(found.url, alternative):
                yield finding
    except errors.PagewardenError as exc:
        yield Finding("Server", "cannot be used", str(exc))


def _disk(settings: Settings) -> Finding:
    folder = next(p for p in (settings.home, *settings.home.parents) if p.exists())
    free = shutil.disk_usage(folder).free / 1e9
    remedy = "" if free > _FREE_GIGABYTES else "make room, or set PAGEWARDEN_HOME to another disk"
    return Finding("Disk", f"{free:.0f} GB free in {folder}", remedy)


async def _database(url: str, alternative: str) -> AsyncIterator[Finding]:
    try:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            yield _version(conn)
            waiting = await migrations.pending(url, alternative=alternative)
            if waiting:
                state = f"{len(waiting)} of them are not applied"
                yield Finding("Migrations", state, 'run "pagewarden migrate"')
                return
            yield Finding("Migrations", "all applied")
            yield await _password(conn)
            yield await _invariants(conn)
            yield await _lanes(conn)
    except errors.DatabaseError as exc:
        yield Finding("Migrations", "do not fit this database", str(exc))
    except psycopg.OperationalError as exc:
        remedy = f'run "pagewarden migrate", which prepares a new one ({_last_line(exc)})'
        yield Finding("Database", "lets nobody in", remedy)


def _last_line(exc: psycopg.Error) -> str:
    return str(exc).strip().splitlines()[-1]


def _version(conn: psycopg.AsyncConnection) -> Finding:
    old = conn.info.server_version < _OLDEST_POSTGRES
    version = f"{conn.info.server_version // 10000}"
    return Finding("Postgres", f"version {version}", "version 15 or newer is needed" if old else "")


async def _password(conn: psycopg.AsyncConnection) -> Finding:
    cursor = await conn.execute(
        "select rolcanlogin from pg_roles where rolname = 'pagewarden_worker'"
    )
    row = await cursor.fetchone()
    ready = row is not None and row[0]
    remedy = "" if ready else "alter role pagewarden_worker login password '…'"
    return Finding("Role of the workers", "can log in" if ready else "cannot log in", remedy)


async def _invariants(conn: psycopg.AsyncConnection) -> Finding:
    cursor = await conn.execute("select invariant, document_id from private.invariant_violations()")
    rows = await cursor.fetchall()
    if not rows:
        return Finding("Invariants", "all hold")
    first = f"{rows[0][0]} (document {rows[0][1]})"
    return Finding("Invariants", f"{len(rows)} violated", f"look at the first: {first}")


async def _lanes(conn: psycopg.AsyncConnection) -> Finding:
    cursor = await conn.execute(
        "select lane, pause_reason from public.lanes where paused_at is not null order by lane"
    )
    rows = await cursor.fetchall()
    if not rows:
        return Finding("Lanes", "all running")
    paused = ", ".join(f"{lane} ({reason})" for lane, reason in rows)
    return Finding("Lanes", f"paused: {paused}", "select resume_lane('…') when the cause is gone")
