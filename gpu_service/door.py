"""How many documents are in the service: some are read, a few more wait, others are sent away."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from gpu_service import refusals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Door:
    """Whoever is inside may send a document, and waits for a place to have it read."""

    def __init__(self, *, places: int, waiting: int, retry_after: int) -> None:
        self._room = places + waiting
        self._retry_after = retry_after
        self._places = asyncio.Semaphore(places)
        self._inside = 0
        self.reading = 0

    @property
    def waiting(self) -> int:
        """Count those who send their document, or wait for a place."""
        return self._inside - self.reading

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside; refused when it is full."""
        if self._inside >= self._room:
            raise refusals.Refused(
                503,
                "Busy",
                "the GPU service has no room for another document; try again soon",
                ours=True,
                retry_after=self._retry_after,
            )
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, first come, first served."""
        async with self._places:
            self.reading += 1
            try:
                yield
            finally:
                self.reading -= 1
