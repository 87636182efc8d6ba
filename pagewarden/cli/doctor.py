"""`pagewarden doctor`: diagnose the installation."""

from __future__ import annotations

import asyncio
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from rich.console import Console

from pagewarden import errors
from pagewarden.cli import program
from pagewarden.local import migrations, stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.settings import Settings

_MIN_FREE_GIGABYTES = 1
_MIN_POSTGRES = 150000


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one subject; `remedy` is empty if there is no problem."""

    subject: str
    state: str
    remedy: str = ""


async def run_checks(settings: Settings) -> AsyncIterator[Finding]:
    """Run the checks in order; skip those that depend on a failed one."""
    yield Finding("Python", sys.version.split()[0])
    yield _check_disk(settings)
    try:
        async with stack.open_existing(settings) as found:
            yield Finding("Server", found.description)
            alternative = (
                stack.USE_ANOTHER_HOME if found.server else migrations.USE_ANOTHER_DATABASE
            )
            async for finding in _check_database(found.url, alternative):
                yield finding
    except errors.PagewardenError as exc:
        yield Finding("Server", "cannot be used", str(exc))


def _check_disk(settings: Settings) -> Finding:
    folder = next(p for p in (settings.home, *settings.home.parents) if p.exists())
    free = shutil.disk_usage(folder).free / 1e9
    is_enough = free > _MIN_FREE_GIGABYTES
    remedy = "" if is_enough else "free disk space, or set PAGEWARDEN_HOME to another disk"
    return Finding("Disk", f"{free:.0f} GB free in {folder}", remedy)


async def _check_database(url: str, alternative: str) -> AsyncIterator[Finding]:
    try:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            yield _check_version(conn)
            pending = await migrations.list_pending(url, alternative=alternative)
            if pending:
                yield Finding("Migrations", f"{len(pending)} pending", 'run "pagewarden migrate"')
                return
            yield Finding("Migrations", "all applied")
            yield await _check_worker_role(conn)
            yield await _check_invariants(conn)
            yield await _check_lanes(conn)
    except errors.DatabaseError as exc:
        yield Finding("Migrations", "do not match this database", str(exc))
    except psycopg.OperationalError as exc:
        remedy = f'run "pagewarden migrate", which prepares a new database ({_get_last_line(exc)})'
        yield Finding("Database", "connection failed", remedy)


def _get_last_line(exc: psycopg.Error) -> str:
    return str(exc).strip().splitlines()[-1]


def _check_version(conn: psycopg.AsyncConnection) -> Finding:
    is_old = conn.info.server_version < _MIN_POSTGRES
    version = f"{conn.info.server_version // 10000}"
    remedy = "upgrade to version 15 or later" if is_old else ""
    return Finding("Postgres", f"version {version}", remedy)


async def _check_worker_role(conn: psycopg.AsyncConnection) -> Finding:
    cursor = await conn.execute(
        "select rolcanlogin from pg_roles where rolname = 'pagewarden_worker'"
    )
    row = await cursor.fetchone()
    ready = row is not None and row[0]
    remedy = "" if ready else "alter role pagewarden_worker login password '…'"
    return Finding("Worker role", "can log in" if ready else "cannot log in", remedy)


async def _check_invariants(conn: psycopg.AsyncConnection) -> Finding:
    cursor = await conn.execute("select invariant, document_id from private.invariant_violations()")
    rows = await cursor.fetchall()
    if not rows:
        return Finding("Invariants", "no violations")
    first = f"{rows[0][0]} (document {rows[0][1]})"
    return Finding("Invariants", f"{len(rows)} violated", f"examine the first: {first}")


async def _check_lanes(conn: psycopg.AsyncConnection) -> Finding:
    cursor = await conn.execute(
        "select lane, pause_reason from public.lanes where paused_at is not null order by lane"
    )
    rows = await cursor.fetchall()
    if not rows:
        return Finding("Lanes", "none paused")
    paused = ", ".join(f"{lane} ({reason})" for lane, reason in rows)
    return Finding(
        "Lanes", f"paused: {paused}", "once the cause is fixed, run: select resume_lane('…')"
    )


out = Console(highlight=False)


def command() -> None:
    """Diagnose the installation; exit code 1 if there is a problem."""
    if asyncio.run(_print_findings(load_settings())):
        sys.exit(program.SOME_FAILED)


async def _print_findings(settings: Settings) -> int:
    problems = 0
    async for finding in run_checks(settings):
        mark = "[red]✗[/]" if finding.remedy else "[green]✓[/]"
        out.print(f"{mark} {finding.subject}: {finding.state}")
        if finding.remedy:
            problems += 1
            out.print(f"    [yellow]→[/] {finding.remedy}")
    return problems
