"""Running together, finishing despite cancellation, and threads."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest

from pagewarden import concurrency


async def test_map_in_order_keeps_the_order() -> None:
    """The first result comes first even if it takes longest."""
    late = asyncio.Event()

    async def work(number: int) -> int:
        if number == 0:
            await late.wait()
        if number == 2:
            late.set()
        return number

    found = concurrency.map_in_order((work(number) for number in range(5)), max_concurrency=3)
    assert [number async for number in found] == [0, 1, 2, 3, 4]


async def test_map_in_order_limits_concurrency() -> None:
    """When the consumer stops, no more are started."""
    running, peak, begun = 0, 0, 0

    async def work() -> None:
        nonlocal running, peak, begun
        begun += 1
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    async with aclosing(
        concurrency.map_in_order((work() for _ in range(100)), max_concurrency=4)
    ) as found:
        async for _ in found:
            if begun >= 10:
                break
    assert peak <= 4
    assert begun < 20


async def test_first_error_cancels_the_others() -> None:
    """None is still running afterwards."""
    ended: list[int] = []

    async def work(number: int) -> None:
        if number == 1:
            raise ValueError("no")
        try:
            await asyncio.Event().wait() if number else None
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="no"):
        async for _ in concurrency.map_in_order(
            (work(number) for number in range(9)), max_concurrency=4
        ):
            pass
    assert sorted(ended) == [0, 2, 3]  # the next ones had not begun


class Step:
    """A step that ends on go_on, and its undo."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.undone: list[str] = []

    async def take(self) -> str:
        """Return after go_on."""
        await self.go_on.wait()
        return "done"

    async def fail(self) -> str:
        """Fail after go_on."""
        await self.go_on.wait()
        raise ValueError("failed")

    async def undo(self, result: str) -> None:
        """Record what is undone."""
        self.undone.append(result)


async def test_step_without_cancellation_is_not_undone() -> None:
    """Its result is returned and its error raised."""
    step = Step()
    step.go_on.set()

    assert await concurrency.finish_or_undo(step.take(), undo=step.undo) == "done"
    with pytest.raises(ValueError, match="failed"):
        await concurrency.finish_or_undo(step.fail(), undo=step.undo)
    assert step.undone == []


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_step_is_finished_and_undone(times: int) -> None:
    """It is undone once, however often the caller is cancelled; then the cancellation is raised."""
    step = Step()
    task = asyncio.create_task(concurrency.finish_or_undo(step.take(), undo=step.undo))
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
    """An undo could remove the work of another task."""
    step = Step()
    task = asyncio.create_task(concurrency.finish_or_undo(step.fail(), undo=step.undo))
    await asyncio.sleep(0)
    task.cancel()
    step.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert step.undone == []


async def test_cancelled_caller_waits_for_its_thread() -> None:
    """Its resources can be released."""
    started, go_on = threading.Event(), threading.Event()
    ended = []

    def work() -> None:
        started.set()
        go_on.wait(10)
        ended.append(True)

    task = asyncio.create_task(concurrency.run_in_thread(work))
    await asyncio.to_thread(started.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
