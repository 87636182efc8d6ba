"""The system under test: a whole system, workers beside it, and a small disk for its files.

Every program of it may be killed, and is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import psycopg
from psycopg.rows import dict_row

from benchmarks import system as systems
from benchmarks.chaos import event_log
from pagewarden import errors
from pagewarden.local import cluster, server, supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from typing import LiteralString

    from benchmarks.chaos.plan import Plan


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
    crew: Crew
    journal: event_log.Journal
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
async def open_system(plan: Plan, said: Path) -> AsyncIterator[Ground]:
    """Start a system, and end it with all that belongs to it; what programs say goes to said."""
    with _disk() as (files, has_disk), systems.prepared(**_settings(plan, files)) as place:
        environment = _hooked(place, plan.seed)
        log = said / f"{SYSTEM}.log"
        journal = event_log.Journal(said / "journal.log")
        async with asyncio.TaskGroup() as group:
            crew = Crew(journal, group)
            try:
                crew.start(Program(SYSTEM, systems.COMMAND, environment, log))
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
        ground.crew.start(Program(name, pagewarden_command(*words), theirs, log))


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


# Programs -----------------------------------------------------------------------------------------
# The programs of a run: started again whenever they end, and found by name to be killed.


SYSTEM = "system"
SANDBOX = "pagewarden.reading.sandbox.zygote"
_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 0.25
_GRACE_SECONDS = 30.0


class Program:
    """A program of ours; what it says goes to a file."""

    def __init__(
        self,
        name: str,
        pagewarden_command: Sequence[str],
        environment: Mapping[str, str],
        said: Path,
    ) -> None:
        self.name = name
        self.starts = 0
        self._command = pagewarden_command
        self._environment = environment
        self._said = said
        self.process: asyncio.subprocess.Process | None = None

    async def run(self, stop: asyncio.Event, journal: event_log.Journal) -> None:
        """Keep it running until stop is set, then end it."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._live(stopping, journal)
                await asyncio.wait({stopping}, timeout=_PAUSE_SECONDS)
        finally:
            stopping.cancel()

    async def _live(self, stopping: asyncio.Task[bool], journal: event_log.Journal) -> None:
        with self._said.open("ab") as said:
            self.process = process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=supervisor.die_with_parent,
            )
        self.starts += 1
        ending = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await _end(process)
            journal.died(process.pid, self.name, ordered=stopping.done())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await ending


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGCONT, signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()


class Crew:
    """All programs of a run; those that the system starts itself are found below it."""

    def __init__(self, journal: event_log.Journal, group: asyncio.TaskGroup) -> None:
        self.programs: dict[str, Program] = {}
        self.parts: dict[str, int] = {}
        self._journal = journal
        self._group = group
        self._stop = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    def start(self, program: Program) -> None:
        """Keep a program running from now on."""
        self.programs[program.name] = program
        self._running.append(self._group.create_task(program.run(self._stop, self._journal)))

    async def stop(self) -> None:
        """End all programs."""
        self._stop.set()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def look(self) -> None:
        """Note which parts the system has, and which of them are gone, until all are ended."""
        while not self._stop.is_set():
            self._look()
            await asyncio.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        found = dict(self._found())
        for name, pid in self.parts.items():
            if found.get(name) != pid:
                self._journal.died(pid, name, ordered=False)
        self.parts = found

    def _found(self) -> Iterator[tuple[str, int]]:
        with contextlib.suppress(LookupError, psutil.Error):
            for child in psutil.Process(self.pid_of(SYSTEM)).children():
                with contextlib.suppress(psutil.Error):
                    if name := systems.part_of(child.cmdline()):
                        yield name, child.pid

    def pid_of(self, name: str) -> int:
        """Find a process, which may be gone by now; LookupError when it does not run."""
        if name in self.parts:
            return self.parts[name]
        program = self.programs[name]
        if program.process is None or program.process.returncode is not None:
            raise LookupError(f"{name} does not run")
        return program.process.pid

    def readers(self) -> list[str]:
        """Name the programs that are there to read documents."""
        return ["worker", *(name for name in self.programs if name != SYSTEM)]

    def kill(self, name: str) -> None:
        """Kill a program or a part; with the system go its parts."""
        pid = self.pid_of(name)
        self._journal.died(pid, name, ordered=True)
        if name == SYSTEM:
            for part, its in self.parts.items():
                self._journal.died(its, part, ordered=True)
        _send(pid, signal.SIGKILL)

    def kill_sandbox(self, name: str) -> None:
        """Kill the process from which a program forks those that read."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.pid_of(name)).children():
                if SANDBOX in child.cmdline():
                    child.kill()

    @contextlib.contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Have a program or a part stand still meanwhile."""
        pid = self.pid_of(name)
        # From the moment it is sure to run on, it may be held to account.
        span = self._journal.stopped(pid, name)
        _send(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(pid, signal.SIGCONT)
            self._journal.goes_on(pid, name, span)


def pagewarden_command(*words: str) -> list[str]:
    """Give the command line of our own command."""
    return [sys.executable, "-m", "pagewarden.cli", *words]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).send_signal(number)
