"""A step that must not be left half-way is finished, and undone for someone who was cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pagewarden.files import settling


class Step:
    """A step that ends when it is told, and its undoing."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.undone: list[str] = []

    async def take(self) -> str:
        """Wait to be told."""
        await self.go_on.wait()
        return "done"

    async def fail(self) -> str:
        """Wait to be told, in vain."""
        await self.go_on.wait()
        raise ValueError("failed")

    async def undo(self, result: str) -> None:
        """Note what is undone."""
        self.undone.append(result)


async def test_step_that_nobody_disturbs_is_kept() -> None:
    """Its result is handed on, and so is its error."""
    step = Step()
    step.go_on.set()

    assert await settling.settled(step.take(), undo=step.undo) == "done"
    with pytest.raises(ValueError, match="failed"):
        await settling.settled(step.fail(), undo=step.undo)
    assert step.undone == []


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_step_is_finished_and_undone(times: int) -> None:
    """However often somebody is cancelled, it is undone once, and then they learn of it."""
    step = Step()
    task = asyncio.create_task(settling.settled(step.take(), undo=step.undo))
    for _ in range(times):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    step.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert step.undone == ["done"]


async def test_cancelled_step_that_failed_has_nothing_to_undo() -> None:
    """Undoing could remove what somebody else did."""
    step = Step()
    task = asyncio.create_task(settling.settled(step.fail(), undo=step.undo))
    await asyncio.sleep(0)
    task.cancel()
    step.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert step.undone == []


async def test_thread_has_ended_when_its_caller_goes_on() -> None:
    """What it uses can be cleaned up."""
    started, go_on = threading.Event(), threading.Event()
    ended = []

    def work() -> None:
        started.set()
        go_on.wait(10)
        ended.append(True)

    task = asyncio.create_task(settling.in_thread(work))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
