"""Which pages of a document wait to be read, and when it is time for the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Agenda:
    """The pages in order, handed out no further than so many ahead of whoever takes them."""

    def __init__(self, numbers: Sequence[int], ahead: int) -> None:
        self.numbers = numbers
        self._ahead = ahead
        self._handed_out = 0
        self._taken = 0
        self._again: deque[int] = deque()
        self._room = asyncio.Event()

    @property
    def is_due(self) -> bool:
        """Say whether a page may be read now."""
        return bool(self._again) or self._has_room

    @property
    def _has_room(self) -> bool:
        return self._handed_out < min(len(self.numbers), self._taken + self._ahead)

    def next(self, *, fresh: bool) -> int | None:
        """Hand out a page, if one is due; those to be read again only to a fresh child."""
        if fresh and self._again:
            return self._again.popleft()
        if not self._has_room:
            return None
        self._handed_out += 1
        return self.numbers[self._handed_out - 1]

    def again(self, number: int) -> None:
        """Take back a page that is to be read once more."""
        self._again.append(number)

    def taken(self) -> None:
        """Note that a page was taken: there is room for another one."""
        self._taken += 1
        self._room.set()

    async def wait(self) -> bool:
        """Wait until a page is due; False when all are handed out."""
        while not self.is_due:
            if self._handed_out == len(self.numbers):
                return False
            self._room.clear()
            await self._room.wait()
        return True
