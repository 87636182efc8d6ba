"""Files that are kept for a while because they may be wanted again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


@dataclass(slots=True)
class _Entry:
    path: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int | None = None
    since: float = 0.0
    users: int = 0


class Kept:
    """A folder of files by key; those unused for longest go first, and none gets old."""

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._now = now
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def file(
        self, key: str, make: Callable[[Path], Awaitable[object]]
    ) -> AsyncIterator[Path]:
        """Have the file, made once for all who want it; it stays at least until they leave."""
        self._tidy()
        entry = self._entries.setdefault(key, _Entry(self._folder / str(next(self._numbers))))
        self._entries.move_to_end(key)
        entry.users += 1
        try:
            async with entry.lock:
                if entry.size is None:
                    await make(entry.path)
                    entry.size, entry.since = entry.path.stat().st_size, self._now()
            yield entry.path
        finally:
            entry.users -= 1
            self._tidy()

    def _tidy(self) -> None:
        oldest = self._now() - self._seconds
        total = sum(entry.size or 0 for entry in self._entries.values())
        for key, entry in list(self._entries.items()):
            if entry.users:
                continue
            if entry.size is None or entry.since < oldest or total > self._max_bytes:
                total -= entry.size or 0
                entry.path.unlink(missing_ok=True)
                del self._entries[key]
