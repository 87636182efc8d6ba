"""The ground of a run: a system of its own, with workers beside it and a small disk for its files.

Everything of it may be killed, and is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
from psycopg.rows import dict_row

from pagewarden import errors
from pagewarden.bench import system as systems
from pagewarden.bench.chaos import crew as crews
from pagewarden.bench.chaos import journal as journals
from pagewarden.local import cluster, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from typing import LiteralString

    from pagewarden.bench.chaos.plans import Plan

ENGINE = "fake-moody"
APPLICATION = "benchmark"
"""What our own connections are called; the referee judges those of workers."""
_DISK_MEGABYTES = 256
_START_SECONDS = 180.0
_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 300.0
_HOOK = Path(__file__).parent / "hook"


@dataclass(frozen=True, slots=True)
class Ground:
    """A running system and who works for it; has_disk: its files are on a disk that can be full."""

    plan: Plan
    place: systems.Place
    crew: crews.Crew
    journal: journals.Journal
    local: server.LocalServer
    files: Path
    has_disk: bool
    said: Path

    @property
    def secret_key(self) -> str:
        """Have the key that opens everything."""
        return (self.place.home / "secret_key").read_text("ascii").strip()

    def client(self) -> httpx.AsyncClient:
        """Talk to its functions as a service; whoever does not answer for long is given up."""
        return httpx.AsyncClient(
            base_url=self.place.url,
            headers={"apikey": self.secret_key},
            timeout=30,
            trust_env=False,
        )

    async def rows(self, query: LiteralString, *values: object) -> list[dict[str, Any]]:
        """Ask the database, again until it is there."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                async with await self.connect() as conn:
                    return await (await conn.execute(query, values or None)).fetchall()
            except psycopg.OperationalError as exc:
                if time.monotonic() > deadline:
                    raise errors.DatabaseAway(f"the database does not come back: {exc}") from exc
            await asyncio.sleep(_POLL_SECONDS)

    async def connect(self) -> psycopg.AsyncConnection[dict[str, Any]]:
        """Connect as one who may do everything."""
        return await psycopg.AsyncConnection.connect(
            self.local.url(cluster.SUPERUSER),
            autocommit=True,
            row_factory=dict_row,
            application_name=APPLICATION,
            connect_timeout=5,
        )


@contextlib.asynccontextmanager
async def opened(plan: Plan, said: Path) -> AsyncIterator[Ground]:
    """Start a system, and end it with all that belongs to it; what programs say goes to said."""
    with _disk() as (files, has_disk), systems.prepared(**_settings(plan, files)) as place:
        environment = _hooked(place, plan.seed)
        log = said / f"{crews.SYSTEM}.log"
        journal = journals.Journal(said / "journal.log")
        async with asyncio.TaskGroup() as group:
            crew = crews.Crew(journal, group)
            try:
                crew.start(crews.Program(crews.SYSTEM, systems.COMMAND, environment, log))
                group.create_task(crew.look())
                await _until_ready(place, log)
                async with server.running(place.home) as local:
                    ground = Ground(plan, place, crew, journal, local, files, has_disk, said)
                    _start_workers(ground, environment)
                    yield ground
            finally:
                await crew.stop()


def _settings(plan: Plan, files: Path) -> Mapping[str, str]:
    return {
        "engine": ENGINE,
        "gpu_engine": ENGINE,
        "files": str(files),
        "lock_seconds": str(plan.lock_seconds),
        "heartbeat_seconds": str(plan.heartbeat_seconds),
        "sweep_seconds": str(plan.sweep_seconds),
        # Pictures of check jobs are the ones over which the engine falls asleep.
        "check_read_seconds": "5",
        "gpu_silence_seconds": str(plan.gpu_silence_seconds),
    }


def _hooked(place: systems.Place, seed: int) -> dict[str, str]:
    """Have Python run our hook as it starts; see hook/sitecustomize.py."""
    paths = [str(_HOOK), place.environment.get("PYTHONPATH", "")]
    # Whoever is killed may leave something behind, which goes with the place.
    scratch = place.home.parent / "tmp"
    scratch.mkdir()
    return {
        **place.environment,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "CHAOS_SEED": str(seed),
        "TMPDIR": str(scratch),
    }


def _start_workers(ground: Ground, environment: Mapping[str, str]) -> None:
    """Start workers as another machine would: with the rights of a worker, and no others."""
    theirs = {
        **environment,
        "PAGEWARDEN_DATABASE_URL": ground.local.url("pagewarden_worker"),
        "PAGEWARDEN_SUPABASE_KEY": ground.secret_key,
    }
    for name, words in ground.plan.workers.items():
        log = ground.said / f"{name}.log"
        ground.crew.start(crews.Program(name, crews.command(*words), theirs, log))


async def _until_ready(place: systems.Place, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    async with httpx.AsyncClient(trust_env=False) as client:
        for url in (place.url, place.gpu_url):
            while not await _is_ready(client, url):
                if time.monotonic() > deadline:
                    said = await asyncio.to_thread(_tail, log)
                    raise errors.LocalStackError(f"the system did not start; it said:\n{said}")
                await asyncio.sleep(_POLL_SECONDS)


async def _is_ready(client: httpx.AsyncClient, url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return (await client.get(f"{url}/readyz")).is_success
    return False


def _tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])


@contextlib.contextmanager
def _disk() -> Iterator[tuple[Path, bool]]:
    """Have a folder on a disk of its own, if we may mount one; otherwise it is never full."""
    with systems.new_folder() as folder:
        options = f"size={_DISK_MEGABYTES}m,mode=0700"
        mounted = _succeeds(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)])
        try:
            yield folder / "files", mounted
        finally:
            if mounted:
                _succeeds(["umount", "-l", str(folder)])


def _succeeds(words: Sequence[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
