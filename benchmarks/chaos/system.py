"""The system under test: a complete system, additional workers, and a small disk for its files.

Every program is restarted when it ends.
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


ENGINE = "fake-flaky"
APPLICATION = "benchmark"
"""Name of the benchmark's own connections, which the monitor does not check."""
_DISK_MEGABYTES = 256
_START_SECONDS = 180.0
_POLL_SECONDS = 0.1
_DATABASE_TIMEOUT_SECONDS = 300.0
_HOOK = Path(__file__).parent / "hook"


@dataclass(frozen=True, slots=True)
class ChaosSystem:
    """A running system with its workers; `has_disk` if its files are on a disk of their own."""

    plan: Plan
    installation: systems.Installation
    programs: Programs
    journal: event_log.Journal
    local: server.LocalServer
    files: Path
    has_disk: bool
    logs: Path

    @property
    def secret_key(self) -> str:
        """Read the secret key."""
        return (self.installation.home / "secret_key").read_text("ascii").strip()

    def client(self) -> httpx.AsyncClient:
        """Open a client of its functions, authenticated as a service."""
        return httpx.AsyncClient(
            base_url=self.installation.url,
            headers={"apikey": self.secret_key},
            timeout=30,
            trust_env=False,
        )

    async def rows(self, query: LiteralString, *values: object) -> list[dict[str, Any]]:
        """Query the database; retry while it is unavailable."""
        deadline = time.monotonic() + _DATABASE_TIMEOUT_SECONDS
        while True:
            try:
                async with await self.connect() as conn:
                    return await (await conn.execute(query, values or None)).fetchall()
            except psycopg.OperationalError as exc:
                if time.monotonic() > deadline:
                    raise errors.DatabaseUnavailable(
                        f"the database is still unavailable: {exc}"
                    ) from exc
            await asyncio.sleep(_POLL_SECONDS)

    async def connect(self) -> psycopg.AsyncConnection[dict[str, Any]]:
        """Connect as superuser."""
        return await psycopg.AsyncConnection.connect(
            self.local.url(cluster.SUPERUSER),
            autocommit=True,
            row_factory=dict_row,
            application_name=APPLICATION,
            connect_timeout=5,
        )


@contextlib.asynccontextmanager
async def open_system(plan: Plan, logs: Path) -> AsyncIterator[ChaosSystem]:
    """Start a system with its workers and stop it at the end; `logs` gets the output."""
    with (
        _mount_disk() as (files, has_disk),
        systems.prepare(**_make_settings(plan, files)) as installation,
    ):
        environment = _make_environment(installation, plan.seed)
        log = logs / f"{SYSTEM}.log"
        journal = event_log.Journal(logs / "journal.log")
        async with asyncio.TaskGroup() as group:
            programs = Programs(journal, group)
            try:
                programs.start(Program(SYSTEM, systems.COMMAND, environment, log))
                group.create_task(programs.watch())
                await _wait_until_ready(installation, log)
                async with server.open_server(installation.home) as local:
                    system = ChaosSystem(
                        plan, installation, programs, journal, local, files, has_disk, logs
                    )
                    _start_workers(system, environment)
                    yield system
            finally:
                await programs.stop()


def _make_settings(plan: Plan, files: Path) -> Mapping[str, str]:
    return {
        "engine": ENGINE,
        "gpu_engine": ENGINE,
        "files": str(files),
        "lock_seconds": str(plan.lock_seconds),
        "heartbeat_seconds": str(plan.heartbeat_seconds),
        "sweep_seconds": str(plan.sweep_seconds),
        # The engine hangs on images of check jobs.
        "check_read_seconds": "5",
        "gpu_silence_seconds": str(plan.gpu_silence_seconds),
    }


def _make_environment(installation: systems.Installation, seed: int) -> dict[str, str]:
    """Make every Python program run hook/sitecustomize.py at its start."""
    paths = [str(_HOOK), installation.environment.get("PYTHONPATH", "")]
    # Killed programs leave temporary files behind.
    scratch = installation.home.parent / "tmp"
    scratch.mkdir()
    return {
        **installation.environment,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "CHAOS_SEED": str(seed),
        "TMPDIR": str(scratch),
    }


def _start_workers(system: ChaosSystem, environment: Mapping[str, str]) -> None:
    """Start workers as on another machine, with the rights of a worker only."""
    worker_environment = {
        **environment,
        "PAGEWARDEN_DATABASE_URL": system.local.url("pagewarden_worker"),
        "PAGEWARDEN_SUPABASE_KEY": system.secret_key,
    }
    for name, arguments in system.plan.workers.items():
        log = system.logs / f"{name}.log"
        # Each as on a machine of its own.
        own = {"PAGEWARDEN_POOL_FOLDER": str(system.logs / f"{name}.pool")}
        system.programs.start(
            Program(name, pagewarden_command(*arguments), worker_environment | own, log)
        )


async def _wait_until_ready(installation: systems.Installation, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    async with httpx.AsyncClient(trust_env=False) as client:
        for url in (installation.url, installation.gpu_url):
            while not await _is_ready(client, url):
                if time.monotonic() > deadline:
                    output = await asyncio.to_thread(_tail, log)
                    raise errors.LocalStackError(f"the system did not start; its output:\n{output}")
                await asyncio.sleep(_POLL_SECONDS)


async def _is_ready(client: httpx.AsyncClient, url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return (await client.get(f"{url}/readyz")).is_success
    return False


def _tail(log: Path, lines: int = 30) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])


@contextlib.contextmanager
def _mount_disk() -> Iterator[tuple[Path, bool]]:
    """Yield a folder, and whether it is on a disk of its own; without rights to mount it is not."""
    with systems.create_folder() as folder:
        options = f"size={_DISK_MEGABYTES}m,mode=0700"
        is_mounted = _succeeds(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)])
        try:
            yield folder / "files", is_mounted
        finally:
            if is_mounted:
                _succeeds(["umount", "-l", str(folder)])


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


# Programs -----------------------------------------------------------------------------------------
# The programs of a run: restarted when they end, and found by name to be killed.


SYSTEM = "system"
SANDBOX = "pagewarden.ocr.sandbox.zygote"
_PAUSE_SECONDS = 0.5
_WATCH_SECONDS = 0.25
_GRACE_SECONDS = 30.0


class Program:
    """A program of the run, restarted when it ends; its output goes to a log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
    ) -> None:
        self.name = name
        self.starts = 0
        self._command = command
        self._environment = environment
        self._log = log
        self.process: asyncio.subprocess.Process | None = None

    async def run(self, stop: asyncio.Event, journal: event_log.Journal) -> None:
        """Keep it running until `stop` is set, then end it."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._run_once(stopping, journal)
                await asyncio.wait({stopping}, timeout=_PAUSE_SECONDS)
        finally:
            stopping.cancel()

    async def _run_once(self, stopping: asyncio.Task[bool], journal: event_log.Journal) -> None:
        with self._log.open("ab") as log:
            self.process = process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=supervisor.die_with_parent,
            )
        self.starts += 1
        ending = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await _stop_process(process)
            journal.record_death(process.pid, self.name, ordered=stopping.done())
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await ending


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGCONT, signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()


class Programs:
    """All programs of a run, and the parts that the system starts as its children."""

    def __init__(self, journal: event_log.Journal, group: asyncio.TaskGroup) -> None:
        self.by_name: dict[str, Program] = {}
        self.parts: dict[str, int] = {}
        self._journal = journal
        self._group = group
        self._stop = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    def start(self, program: Program) -> None:
        """Start a program and keep it running."""
        self.by_name[program.name] = program
        self._running.append(self._group.create_task(program.run(self._stop, self._journal)))

    async def stop(self) -> None:
        """End all programs."""
        self._stop.set()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def watch(self) -> None:
        """Record the parts of the system and their deaths until the programs are stopped."""
        while not self._stop.is_set():
            self._update_parts()
            await asyncio.sleep(_WATCH_SECONDS)

    def _update_parts(self) -> None:
        found = dict(self._find_parts())
        for name, pid in self.parts.items():
            if found.get(name) != pid:
                self._journal.record_death(pid, name, ordered=False)
        self.parts = found

    def _find_parts(self) -> Iterator[tuple[str, int]]:
        with contextlib.suppress(LookupError, psutil.Error):
            for child in psutil.Process(self.find_pid(SYSTEM)).children():
                with contextlib.suppress(psutil.Error):
                    if name := systems.find_part(child.cmdline()):
                        yield name, child.pid

    def find_pid(self, name: str) -> int:
        """Return the process id of a program or part; LookupError if it is not running."""
        if name in self.parts:
            return self.parts[name]
        program = self.by_name[name]
        if program.process is None or program.process.returncode is not None:
            raise LookupError(f"{name} is not running")
        return program.process.pid

    def worker_names(self) -> list[str]:
        """List the programs and parts that read documents."""
        return ["worker", *(name for name in self.by_name if name != SYSTEM)]

    def kill(self, name: str) -> None:
        """Kill a program or a part; the parts of the system die with it."""
        pid = self.find_pid(name)
        self._journal.record_death(pid, name, ordered=True)
        if name == SYSTEM:
            for part, part_pid in self.parts.items():
                self._journal.record_death(part_pid, part, ordered=True)
        _send(pid, signal.SIGKILL)

    def kill_sandbox(self, name: str) -> None:
        """Kill the process from which a worker forks its sandboxed children."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.find_pid(name)).children():
                if SANDBOX in child.cmdline():
                    child.kill()

    @contextlib.contextmanager
    def suspend(self, name: str) -> Iterator[None]:
        """Suspend a program or a part within the block."""
        pid = self.find_pid(name)
        # Recorded before the signal and until after the next: the process surely ran outside of it.
        span = self._journal.record_suspension(pid, name)
        _send(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(pid, signal.SIGCONT)
            self._journal.record_resume(pid, name, span)


def pagewarden_command(*arguments: str) -> list[str]:
    """Return the command line of a pagewarden command."""
    return [sys.executable, "-m", "pagewarden", *arguments]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).send_signal(number)
