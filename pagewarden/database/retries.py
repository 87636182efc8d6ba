"""Try again when somebody changed the same thing at the same time."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

RETRY_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)


async def with_retries(
    call: Callable[[], Awaitable[T]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Make the call again after a conflict, five times at most; then the conflict is raised."""
    for seconds in RETRY_SECONDS:
        try:
            return await call()
        except errors.Conflict:
            # A quarter more or less, so that two who met do not meet again.
            await sleep(seconds * random.uniform(0.75, 1.25))  # noqa: S311  # no secret
    return await call()
