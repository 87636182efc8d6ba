"""Steps that must not be left half-way, even by someone who is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
P = ParamSpec("P")


async def settled(step: Awaitable[T], *, undo: Callable[[T], Awaitable[object]] | None = None) -> T:
    """Finish a step; whoever was cancelled meanwhile learns so after it is undone."""
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


async def in_thread(func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread, and do not go on while it runs: it uses what we would clean up."""
    return await settled(asyncio.to_thread(func, *args, **kwargs))
