"""Programs that run side by side: whichever dies is started again, and they all stop together."""

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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# Whoever lived that long is started again at once when it dies.
HEALTHY_SECONDS = 30.0
GRACE_SECONDS = 20.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Part:
    """A program: what it is called, how it is started, and what its environment has besides."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Supervisor:
    """Keeps one part running; say gets its words line by line, with its name."""

    part: Part
    say: Callable[[str, str], None]
    process: asyncio.subprocess.Process | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Start it again whenever it ends, until stop is set; then end it."""
        pause = 0.0
        stopping = asyncio.create_task(stop.wait())
        clock = asyncio.get_running_loop().time
        try:
            while not stop.is_set():
                begin = clock()
                try:
                    code = await self._live(stopping)
                except OSError as exc:  # no memory, or too many processes; that may pass
                    log.warning("part_not_started", part=self.part.name, error=str(exc))
                else:
                    if stop.is_set():
                        return
                    log.warning("part_died", part=self.part.name, exit_code=code)
                pause = pause_after(clock() - begin, pause)
                await asyncio.wait({stopping}, timeout=pause)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _live(self, stopping: asyncio.Task[bool]) -> int:
        """Run it once, to its end or ours."""
        self.process = process = await asyncio.create_subprocess_exec(
            *self.part.command,
            env={**os.environ, **self.part.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # Ctrl-C is for us; we end the parts in order.
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        listening = asyncio.create_task(self._listen(process))
        ending = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await _end(process)
            return await ending
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            # What it left running may hold the pipe open.
            await asyncio.wait({listening}, timeout=1)
            listening.cancel()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101  # we asked for the pipe
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                continue  # longer than any line we want to see; the rest of it comes next
            if not line:
                return
            # A part that nobody listens to would soon wait for ever.
            with contextlib.suppress(OSError, ValueError):
                self.say(self.part.name, line.decode(errors="replace").rstrip())


def pause_after(lived_seconds: float, last_pause: float) -> float:
    """Tell how long to wait with the next start: ever longer for what dies ever again."""
    if lived_seconds >= HEALTHY_SECONDS:
        return FIRST_PAUSE_SECONDS
    return min(max(2 * last_pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)


async def run(parts: Sequence[Part], stop: asyncio.Event, say: Callable[[str, str], None]) -> None:
    """Keep all parts running until stop is set; then end them together."""
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(Supervisor(part, say).run(stop))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to end; whoever takes too long is killed."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        log.warning("part_killed", pid=process.pid, after_seconds=GRACE_SECONDS)
        process.kill()


def die_with_parent() -> None:
    """Have the kernel end this child when its parent is gone, however that came about."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def program(*arguments: str) -> list[str]:
    """Start one of our own programs with the Python that runs us."""
    return [sys.executable, "-m", *arguments]
