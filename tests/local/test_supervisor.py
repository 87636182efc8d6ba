"""A supervisor restarts programs that die, stops all together, and starts some on demand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
import structlog

from pagewarden import concurrency
from pagewarden.local import supervisor
from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIVING = """
import os, time
print("alive", os.getpid(), flush=True)
time.sleep(600)
"""
STUBBORN = f"""
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{LIVING}
"""
STOPPABLE = """
import signal, sys
def end(*_):
    print("ended", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("alive", flush=True)
signal.pause()
"""
PARENT = """
import asyncio, sys
from pagewarden.local import supervisor
program = supervisor.Program("child", [sys.executable, "-c", sys.argv[1]])
write_line = lambda name, line: print(line, flush=True)
asyncio.run(supervisor.run_programs([program], asyncio.Event(), write_line))
"""


class Watch:
    """Records the output of the programs."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.stop = asyncio.Event()

    def write_line(self, name: str, line: str) -> None:
        """Record a line."""
        self.lines.append((name, line))

    def pids(self, name: str = "one") -> list[int]:
        """Return the process ids that a program has had."""
        return [int(line.split()[1]) for program, line in self.lines if program == name]

    async def wait_for_starts(self, times: int, name: str = "one") -> None:
        """Wait until a program has been started this many times."""
        await polling.wait_until(lambda: len(self.pids(name)) >= times)


@contextlib.asynccontextmanager
async def running(**scripts: str) -> AsyncIterator[Watch]:
    """Run these Python scripts, and stop them at the end."""
    watch = Watch()
    programs = [
        supervisor.Program(name, [sys.executable, "-c", it]) for name, it in scripts.items()
    ]
    task = asyncio.create_task(supervisor.run_programs(programs, watch.stop, watch.write_line))
    try:
        yield watch
    finally:
        watch.stop.set()
        await task


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not make the test wait."""
    monkeypatch.setattr(supervisor, "FIRST_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "STOP_TIMEOUT_SECONDS", 0.2)


async def test_killed_program_is_restarted_and_others_go_on() -> None:
    """Any number of times."""
    async with running(one=LIVING, two=LIVING) as watch:
        for times in (1, 2, 3):
            await watch.wait_for_starts(times)
            os.kill(watch.pids()[-1], signal.SIGKILL)
        await watch.wait_for_starts(4)
        await watch.wait_for_starts(1, "two")
        assert len(watch.pids("two")) == 1


async def test_stop_ends_all_programs() -> None:
    """A program that ignores SIGTERM is killed."""
    async with running(one=LIVING, two=STUBBORN) as watch:
        await watch.wait_for_starts(1)
        await watch.wait_for_starts(1, "two")
    assert not any(_is_alive(pid) for pid in watch.pids() + watch.pids("two"))


async def test_failed_start_is_retried_and_others_go_on() -> None:
    """A machine may be out of memory for a while."""
    watch = Watch()
    programs = [
        supervisor.Program("none", ["/there/is/no/such/program"]),
        supervisor.Program("one", [sys.executable, "-c", LIVING]),
    ]
    with structlog.testing.capture_logs() as lines:
        task = asyncio.create_task(supervisor.run_programs(programs, watch.stop, watch.write_line))
        await watch.wait_for_starts(1)
        await polling.wait_until(lambda: len(lines) > 1)
        watch.stop.set()
        await task
    assert {line["event"] for line in lines} == {"program_start_failed"}


@pytest.mark.parametrize("error", [OSError("no space left"), UnicodeError("no such letter")])
async def test_output_that_cannot_be_written_does_not_block_a_program(error: Exception) -> None:
    """The program goes on, and later lines are written."""
    watch = Watch()

    def write_line(name: str, line: str) -> None:
        if not line.startswith("alive"):
            raise error
        watch.write_line(name, line)

    script = f"print('x\\n' * 200_000)\n{LIVING}"
    programs = [supervisor.Program("one", [sys.executable, "-c", script])]
    task = asyncio.create_task(supervisor.run_programs(programs, watch.stop, write_line))
    await watch.wait_for_starts(1)
    watch.stop.set()
    await task


def test_restart_delay_grows_for_a_program_that_dies_repeatedly() -> None:
    """Up to a maximum; after a healthy run it starts again from the first delay."""
    delays = [supervisor.FIRST_DELAY_SECONDS]
    for _ in range(20):
        delays.append(supervisor.compute_restart_delay(0.1, delays[-1]))
    assert delays[:4] == [delays[0] * factor for factor in (1, 2, 4, 8)]
    assert delays[-1] == supervisor.MAX_DELAY_SECONDS
    assert supervisor.compute_restart_delay(supervisor.HEALTHY_SECONDS, delays[-1]) == delays[0]


async def test_programs_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    """The kernel terminates them."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, LIVING, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    pid = int((await process.stdout.readline()).split()[1])
    assert _is_alive(pid)
    process.kill()
    await process.wait()
    await polling.wait_until(lambda: not _is_alive(pid))


async def test_on_demand_program_runs_while_needed_and_some_time_longer() -> None:
    """It survives a short pause between two jobs, and ends after a long one."""
    lines: list[str] = []
    needed, stop = concurrency.Toggle(), asyncio.Event()
    program = supervisor.Program("volumes", [sys.executable, "-c", STOPPABLE])
    on_demand = supervisor.OnDemandProgram(
        program, needed, lambda _, line: lines.append(line), linger_seconds=0.5
    )
    task = asyncio.create_task(on_demand.run(stop))
    for _ in range(20):
        await asyncio.sleep(0)
    assert lines == []

    needed.set_state(is_on=True)
    await polling.wait_until(lambda: lines == ["alive"])
    needed.set_state(is_on=False)
    await asyncio.sleep(0)
    needed.set_state(is_on=True)
    with pytest.raises(TimeoutError):
        await polling.wait_until(lambda: lines != ["alive"], seconds=0.6)

    needed.set_state(is_on=False)
    await polling.wait_until(lambda: lines == ["alive", "ended"])
    needed.set_state(is_on=True)
    await polling.wait_until(lambda: lines == ["alive", "ended", "alive"])
    stop.set()
    await task
