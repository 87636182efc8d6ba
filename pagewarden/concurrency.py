"""Helpers for asyncio: run together, finish despite cancellation, open on first use, wait.

Errors of one task cancel its siblings and are raised unwrapped, unlike those of asyncio.TaskGroup.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Iterable,
        Sequence,
    )

T = TypeVar("T")
P = ParamSpec("P")


async def run_all(coroutines: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all at once; the first error cancels the others and is raised unwrapped."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_all(tasks)


async def map_in_order(
    coroutines: Iterable[Coroutine[None, None, T]], *, max_concurrency: int
) -> AsyncGenerator[T]:
    """Yield the results in order; at most `max_concurrency` run concurrently."""
    running: deque[asyncio.Future[T]] = deque()
    try:
        for coroutine in coroutines:
            running.append(asyncio.ensure_future(coroutine))
            if len(running) >= max_concurrency:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        await cancel_all(list(running))


async def cancel_all(tasks: Sequence[asyncio.Future[T]]) -> None:
    """Cancel these tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def finish_or_undo(
    step: Awaitable[T], *, undo: Callable[[T], Awaitable[object]] | None = None
) -> T:
    """Finish a step even if cancelled; then undo it and raise the cancellation."""
    task = asyncio.ensure_future(step)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is None:
        return task.result()
    if undo and not task.cancelled() and task.exception() is None:
        await undo(task.result())
    raise cancelled


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread, and wait for its end even if cancelled: it uses the caller's resources."""
    return await finish_or_undo(asyncio.to_thread(function, *args, **kwargs))


class LazyResource(Generic[T]):
    """A resource that is opened on first use, once for concurrent users.

    After a failure the next call tries again. Use open_lazily() to make one.
    """

    def __init__(
        self,
        factory: Callable[[], contextlib.AbstractAsyncContextManager[T]],
        stack: contextlib.AsyncExitStack,
    ) -> None:
        self._factory = factory
        self._stack = stack
        self._lock = asyncio.Lock()
        self._opened: list[T] = []

    async def get(self) -> T:
        """Return the resource, and open it first if needed."""
        async with self._lock:
            if not self._opened:
                self._opened.append(await self._stack.enter_async_context(self._factory()))
        return self._opened[0]


@contextlib.asynccontextmanager
async def open_lazily(
    factory: Callable[[], contextlib.AbstractAsyncContextManager[T]],
) -> AsyncIterator[LazyResource[T]]:
    """Open a resource on first use, and close it at the end if it was opened."""
    async with contextlib.AsyncExitStack() as stack:
        yield LazyResource(factory, stack)


async def wait(*events: asyncio.Event, seconds: float | None) -> None:
    """Wait until one of the events is set, or until the timeout."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


class Toggle:
    """Two events of which one is set: on or off, initially off."""

    def __init__(self) -> None:
        self.on, self.off = asyncio.Event(), asyncio.Event()
        self.off.set()

    def set_state(self, *, is_on: bool) -> None:
        """Set the one event and clear the other."""
        (self.on if is_on else self.off).set()
        (self.off if is_on else self.on).clear()
