"""Retry transient failures of servers and stores, with backoff and jitter."""

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
MAX_WAIT_SECONDS = 30.0

_TRANSIENT = (errors.ServerAway, errors.StoreAway)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses between attempts; their number limits the retries.

    A server that asks for a wait of more than max_wait seconds counts as unavailable.
    """

    pauses: tuple[float, ...] = PAUSE_SECONDS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    max_wait: float = MAX_WAIT_SECONDS

    async def call(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds; raise ServerAway or StoreAway after the last retry."""
        failures = 0
        while True:
            try:
                return await attempt()
            except _TRANSIENT as exc:
                await self._wait(failures, exc)
                failures += 1

    async def resume(
        self, read_from: Callable[[int], AsyncGenerator[bytes, None]], start: int
    ) -> AsyncGenerator[bytes, None]:
        """Resume a stream at its position after a lost connection; stored files never change."""
        position, failures = start, 0
        while True:
            try:
                async with contextlib.aclosing(read_from(position)) as chunks:
                    async for chunk in chunks:
                        position, failures = position + len(chunk), 0
                        yield chunk
            except _TRANSIENT as exc:
                await self._wait(failures, exc)
                failures += 1
            else:
                return

    async def _wait(self, failures: int, exc: errors.ServerAway | errors.StoreAway) -> None:
        requested = exc.retry_after or 0.0
        if failures >= len(self.pauses) or requested > self.max_wait:
            raise exc
        # Jitter, so that clients which failed together do not retry together.
        pause = self.pauses[failures] * random.uniform(0.75, 1.25)  # noqa: S311  # not for secrets
        await self.sleep(max(pause, requested))
