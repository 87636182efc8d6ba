"""Run programs side by side: restart those that die, stop them together, start some on demand."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

log = structlog.get_logger(__name__)

FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 30.0
# After this uptime the backoff starts again from the first delay.
HEALTHY_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 20.0
# Between two jobs in a row a program keeps running, so that the second need not wait for its start.
LINGER_SECONDS = 60.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its name in the output, its command, and additional environment variables."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


async def run_programs(
    programs: Sequence[Program], stop: asyncio.Event, write_line: Callable[[str, str], None]
) -> None:
    """Keep all programs running until `stop` is set; then stop them together."""
    async with asyncio.TaskGroup() as group:
        for program in programs:
            group.create_task(Supervisor(program, write_line).run(stop))


@dataclass(slots=True)
class Supervisor:
    """Keeps one program running; write_line(name, line) receives its output."""

    program: Program
    write_line: Callable[[str, str], None]

    async def run(self, stop: asyncio.Event) -> None:
        """Run the program, and restart it whenever it ends, until `stop` is set."""
        delay = 0.0
        stopping = asyncio.create_task(stop.wait())
        clock = asyncio.get_running_loop().time
        try:
            while not stop.is_set():
                started_at = clock()
                try:
                    code = await self._run_once(stopping)
                except OSError as exc:  # out of memory, or too many processes; may be temporary
                    log.warning("program_start_failed", program=self.program.name, error=str(exc))
                else:
                    if stop.is_set():
                        return
                    log.warning("program_exited", program=self.program.name, exit_code=code)
                delay = compute_restart_delay(clock() - started_at, delay)
                await asyncio.wait({stopping}, timeout=delay)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _run_once(self, stopping: asyncio.Task[bool]) -> int:
        """Run the program until it ends or is stopped; return its exit code."""
        process = await asyncio.create_subprocess_exec(
            *self.program.command,
            env={**os.environ, **self.program.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # Ctrl-C must reach this process only; it stops the programs in order.
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        reading = asyncio.create_task(self._forward_output(process))
        ending = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await _terminate(process)
            return await ending
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            # Processes that the program left behind may hold the pipe open.
            await asyncio.wait({reading}, timeout=1)
            reading.cancel()

    async def _forward_output(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101  # started with a pipe
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                continue  # the line exceeds the buffer and is dropped; its rest comes next
            if not line:
                return
            # Go on reading after an error: the program would block on a full pipe.
            with contextlib.suppress(OSError, ValueError):
                self.write_line(self.program.name, line.decode(errors="replace").rstrip())


@dataclass(frozen=True, slots=True)
class OnDemandProgram:
    """Runs a program while it is needed and for some time afterwards."""

    program: Program
    needed: concurrency.Toggle
    write_line: Callable[[str, str], None]
    linger_seconds: float = LINGER_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Start and stop the program as needed until `stop` is set."""
        while not stop.is_set():
            await concurrency.wait(self.needed.on, stop, seconds=None)
            if not stop.is_set():
                await self._run_while_needed(stop)

    async def _run_while_needed(self, stop: asyncio.Event) -> None:
        stop_program = asyncio.Event()
        running = asyncio.create_task(Supervisor(self.program, self.write_line).run(stop_program))
        try:
            while self.needed.on.is_set() and not stop.is_set():
                await concurrency.wait(self.needed.off, stop, seconds=None)
                await concurrency.wait(self.needed.on, stop, seconds=self.linger_seconds)
        finally:
            stop_program.set()
            await running


def compute_restart_delay(uptime_seconds: float, last_delay: float) -> float:
    """Return the seconds to wait before a restart, doubling for a program that dies repeatedly."""
    if uptime_seconds >= HEALTHY_SECONDS:
        return FIRST_DELAY_SECONDS
    return min(max(2 * last_delay, FIRST_DELAY_SECONDS), MAX_DELAY_SECONDS)


def die_with_parent() -> None:
    """Make the kernel terminate this child when its parent dies (as preexec_fn)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def make_program_command(*arguments: str) -> list[str]:
    """Return the command that runs one of our modules with this Python."""
    return [sys.executable, "-m", *arguments]


async def _terminate(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM, and SIGKILL after a timeout."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
            await process.wait()
    except TimeoutError:
        log.warning("program_killed", pid=process.pid, after_seconds=STOP_TIMEOUT_SECONDS)
        process.kill()
