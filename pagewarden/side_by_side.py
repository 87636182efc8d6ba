"""Several things at a time, of which the first that fails ends all."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence

T = TypeVar("T")


async def run(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run them all to the end; an error is raised as it is, when none of them runs any more."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _end(tasks)


async def in_order(works: Iterable[Coroutine[None, None, T]], *, ahead: int) -> AsyncGenerator[T]:
    """Give what comes of each in their order; so many run at a time, and the next when taken."""
    under_way: deque[asyncio.Future[T]] = deque()
    try:
        for work in works:
            under_way.append(asyncio.ensure_future(work))
            if len(under_way) >= ahead:
                yield await under_way.popleft()
        while under_way:
            yield await under_way.popleft()
    finally:
        await _end(list(under_way))


async def _end(tasks: Sequence[asyncio.Future[T]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
