"""Waiting for what another process or task does, without guessing how long it takes."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE_SECONDS = 20.0


async def until(
    condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = PATIENCE_SECONDS
) -> None:
    """Return when the condition holds; fail when it never does."""
    async with asyncio.timeout(seconds):
        while not await _holds(condition):  # noqa: ASYNC110  # others cannot set an event of ours
            await asyncio.sleep(0.01)


async def _holds(condition: Callable[[], bool | Awaitable[bool]]) -> bool:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer
