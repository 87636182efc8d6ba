"""Wait for other processes and tasks by polling a condition."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TIMEOUT_SECONDS = 20.0


async def wait_until(
    condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when the condition is true; raise TimeoutError if it stays false."""
    async with asyncio.timeout(seconds):
        while not await _evaluate(condition):  # noqa: ASYNC110  # others cannot set an event here
            await asyncio.sleep(0.01)


async def _evaluate(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    result = condition()
    return await result if inspect.isawaitable(result) else result
