"""Who may use a process now: documents take turns, so a long one does not keep a short one waiting.

Each document has one lane that is served first come, first served, and helpers that use what is
left over. At the end of a page a lane asks whether its turn is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

# A new turn costs a fork and opening the document again: some 50 ms.
TURN_SECONDS = 2.0


class Rank(enum.IntEnum):
    """Who goes before whom."""

    FIRST = 0
    HELPER = 1


class Turns:
    """A number of places; who finds none waits."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[Rank, deque[asyncio.Future[None]]] = {rank: deque() for rank in Rank}

    @contextlib.asynccontextmanager
    async def taken(self, rank: Rank) -> AsyncGenerator[Turn]:
        """Wait for a place and hold it."""
        await self._acquire(rank)
        try:
            yield Turn(self, rank)
        finally:
            self._release()

    def wanted_by(self, rank: Rank) -> bool:
        """Say whether a lane of this rank waits."""
        return any(not waiter.done() for waiter in self._waiting[rank])

    async def _acquire(self, rank: Rank) -> None:
        if self._free:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[rank].append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # The place may have been given to us at the very moment.
            if waiter.done() and not waiter.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        for rank in Rank:
            while self._waiting[rank]:
                waiter = self._waiting[rank].popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    return
        self._free += 1


@dataclass(frozen=True, slots=True)
class Turn:
    """A place in use."""

    turns: Turns
    rank: Rank
    started: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        """Say whether somebody else is to have the place: helpers make room for first lanes."""
        if self.rank is Rank.HELPER and self.turns.wanted_by(Rank.FIRST):
            return True
        long = time.monotonic() - self.started > TURN_SECONDS
        return long and any(self.turns.wanted_by(rank) for rank in Rank if rank <= self.rank)


class Clock:
    """Counts the seconds in which at least one lane is at work; waiting for a turn costs none."""

    def __init__(self) -> None:
        self._lanes = 0
        self._since = 0.0
        self._before = 0.0

    @property
    def seconds(self) -> float:
        """Say how many there were so far."""
        running = time.monotonic() - self._since if self._lanes else 0.0
        return self._before + running

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count while a lane works."""
        if not self._lanes:
            self._since = time.monotonic()
        self._lanes += 1
        try:
            yield
        finally:
            self._lanes -= 1
            if not self._lanes:
                self._before += time.monotonic() - self._since
