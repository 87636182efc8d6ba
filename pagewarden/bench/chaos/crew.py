"""The programs of a run: started again whenever they end, and found by name to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING

import psutil

from pagewarden.bench import system as systems
from pagewarden.local import supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pagewarden.bench.chaos import journal as journals

SYSTEM = "system"
SANDBOX = "pagewarden.reading.sandbox.zygote"
_PAUSE_SECONDS = 0.5
_LOOK_SECONDS = 0.25
_GRACE_SECONDS = 30.0


class Program:
    """A program of ours; what it says goes to a file."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], said: Path
    ) -> None:
        self.name = name
        self.starts = 0
        self._command = command
        self._environment = environment
        self._said = said
        self.process: asyncio.subprocess.Process | None = None

    async def run(self, stop: asyncio.Event, journal: journals.Journal) -> None:
        """Keep it running until stop is set, then end it."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._live(stopping, journal)
                await asyncio.wait({stopping}, timeout=_PAUSE_SECONDS)
        finally:
            stopping.cancel()

    async def _live(self, stopping: asyncio.Task[bool], journal: journals.Journal) -> None:
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

    def __init__(self, journal: journals.Journal, group: asyncio.TaskGroup) -> None:
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


def command(*words: str) -> list[str]:
    """Give the command line of our own command."""
    return [sys.executable, "-m", "pagewarden.cli", *words]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(psutil.Error):
        psutil.Process(pid).send_signal(number)
