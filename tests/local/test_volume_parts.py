"""Volumes of pagewarden up: workers are there while there are jobs, and cost nothing otherwise."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pagewarden import concurrency
from pagewarden.local import supervisor, volume_parts
from tests.support import polling

LIVING = """
import signal, sys
def end(*_):
    print("ended", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("alive", flush=True)
signal.pause()
"""


async def test_a_part_runs_while_it_is_needed_and_some_time_longer() -> None:
    """It is started by the first job, outlives a short pause, and ends after a long one."""
    said: list[str] = []
    needed, stop = concurrency.Toggle(), asyncio.Event()
    part = supervisor.Part("volumes", [sys.executable, "-c", LIVING])
    on_call = volume_parts.OnCall(
        part, needed, lambda _, line: said.append(line), linger_seconds=0.5
    )
    running = asyncio.create_task(on_call.run(stop))
    for _ in range(20):
        await asyncio.sleep(0)
    assert said == []

    needed.turn(on=True)
    await polling.until(lambda: said == ["alive"])
    needed.turn(on=False)
    await asyncio.sleep(0)
    needed.turn(on=True)
    with pytest.raises(TimeoutError):
        await polling.until(lambda: said != ["alive"], seconds=0.6)

    needed.turn(on=False)
    await polling.until(lambda: said == ["alive", "ended"])
    needed.turn(on=True)
    await polling.until(lambda: said == ["alive", "ended", "alive"])
    stop.set()
    await running
