"""Programs under one supervisor: the dead are started again, and all stop together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
import structlog

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
PARENT = """
import asyncio, sys
from pagewarden.local import supervisor
part = supervisor.Part("child", [sys.executable, "-c", sys.argv[1]])
say = lambda name, line: print(line, flush=True)
asyncio.run(supervisor.run([part], asyncio.Event(), say))
"""


class Watch:
    """Hears what the parts say, and runs them."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.stop = asyncio.Event()

    def say(self, name: str, line: str) -> None:
        """Write it down."""
        self.said.append((name, line))

    def pids(self, name: str = "one") -> list[int]:
        """List the processes a part has had."""
        return [int(line.split()[1]) for part, line in self.said if part == name]

    async def has_lived(self, times: int, name: str = "one") -> None:
        """Wait until a part has been started so often."""
        await polling.until(lambda: len(self.pids(name)) >= times)


@contextlib.asynccontextmanager
async def watched(**programs: str) -> AsyncIterator[Watch]:
    """Run these programs; at the end, stop them."""
    watch = Watch()
    parts = [supervisor.Part(name, [sys.executable, "-c", it]) for name, it in programs.items()]
    running = asyncio.create_task(supervisor.run(parts, watch.stop, watch.say))
    try:
        yield watch
    finally:
        watch.stop.set()
        await running


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not make the test wait."""
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "GRACE_SECONDS", 0.2)


async def test_a_part_that_is_killed_is_started_again_and_the_others_do_not_notice() -> None:
    """As often as it takes."""
    async with watched(one=LIVING, two=LIVING) as watch:
        for times in (1, 2, 3):
            await watch.has_lived(times)
            os.kill(watch.pids()[-1], signal.SIGKILL)
        await watch.has_lived(4)
        await watch.has_lived(1, "two")
        assert len(watch.pids("two")) == 1


async def test_all_parts_end_with_the_supervisor_even_those_that_refuse() -> None:
    """Nobody outlives it."""
    async with watched(one=LIVING, two=STUBBORN) as watch:
        await watch.has_lived(1)
        await watch.has_lived(1, "two")
    assert not any(_is_alive(pid) for pid in watch.pids() + watch.pids("two"))


async def test_a_part_that_cannot_be_started_is_tried_again_and_stops_no_other() -> None:
    """A machine may be short of memory for a while."""
    watch = Watch()
    parts = [
        supervisor.Part("none", ["/there/is/no/such/program"]),
        supervisor.Part("one", [sys.executable, "-c", LIVING]),
    ]
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(supervisor.run(parts, watch.stop, watch.say))
        await watch.has_lived(1)
        await polling.until(lambda: len(lines) > 1)
        watch.stop.set()
        await running
    assert {line["event"] for line in lines} == {"part_not_started"}


@pytest.mark.parametrize("trouble", [OSError("no space left"), UnicodeError("no such letter")])
async def test_words_that_cannot_be_shown_do_not_stop_a_part(trouble: Exception) -> None:
    """It goes on, however much it has to say, and is heard when it can be."""
    watch = Watch()

    def say(name: str, line: str) -> None:
        if not line.startswith("alive"):
            raise trouble
        watch.say(name, line)

    program = f"print('x\\n' * 200_000)\n{LIVING}"
    parts = [supervisor.Part("one", [sys.executable, "-c", program])]
    running = asyncio.create_task(supervisor.run(parts, watch.stop, say))
    await watch.has_lived(1)
    watch.stop.set()
    await running


def test_a_part_that_dies_again_and_again_is_started_ever_more_slowly() -> None:
    """It does not keep the machine busy; what lived for a while is started at once."""
    pauses = [supervisor.FIRST_PAUSE_SECONDS]
    for _ in range(20):
        pauses.append(supervisor.pause_after(0.1, pauses[-1]))
    assert pauses[:4] == [pauses[0] * factor for factor in (1, 2, 4, 8)]
    assert pauses[-1] == supervisor.LONGEST_PAUSE_SECONDS
    assert supervisor.pause_after(supervisor.HEALTHY_SECONDS, pauses[-1]) == pauses[0]


async def test_no_part_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """The kernel ends them; nothing has to be cleaned up by hand."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, LIVING, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    pid = int((await process.stdout.readline()).split()[1])
    assert _is_alive(pid)
    process.kill()
    await process.wait()
    await polling.until(lambda: not _is_alive(pid))
