"""Try again what failed in passing, a few times, further and further apart."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

T = TypeVar("T")

PAUSE_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
LONGEST_WAIT_SECONDS = 30.0

_AWAY = (errors.ServerAway, errors.StoreAway)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often is tried, and what is done in between.

    longest_wait is in seconds: whoever wants us to wait longer is away.
    """

    pauses: tuple[float, ...] = PAUSE_SECONDS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    longest_wait: float = LONGEST_WAIT_SECONDS

    async def persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until there is an answer; raises ServerAway or StoreAway when there is none."""
        failures = 0
        while True:
            try:
                return await call()
            except _AWAY as exc:
                await self._wait(failures, exc)
                failures += 1

    async def resume(
        self, read_from: Callable[[int], AsyncGenerator[bytes, None]], start: int
    ) -> AsyncGenerator[bytes, None]:
        """Read on where a broken connection left off; files never change, so it fits."""
        position, failures = start, 0
        while True:
            try:
                async with contextlib.aclosing(read_from(position)) as chunks:
                    async for chunk in chunks:
                        position, failures = position + len(chunk), 0
                        yield chunk
            except _AWAY as exc:
                await self._wait(failures, exc)
                failures += 1
            else:
                return

    async def _wait(self, failures: int, exc: errors.ServerAway | errors.StoreAway) -> None:
        asked = exc.retry_after or 0.0
        if failures >= len(self.pauses) or asked > self.longest_wait:
            raise exc
        # A quarter more or less, so that those who failed together do not come back together.
        pause = self.pauses[failures] * random.uniform(0.75, 1.25)  # noqa: S311  # no secret
        await self.sleep(max(pause, asked))
