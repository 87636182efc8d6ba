"""A cache of files on disk, evicted by age and total size."""

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
class _CacheEntry:
    path: Path
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int | None = None
    created_at: float = 0.0
    users: int = 0


class FileCache:
    """Files by key; the least recently used are evicted first, all after `seconds`."""

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
        self._entries: OrderedDict[str, _CacheEntry] = OrderedDict()
        self._numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def get(self, key: str, make: Callable[[Path], Awaitable[object]]) -> AsyncIterator[Path]:
        """Yield the cached file, created on first use; it is not evicted while in use."""
        self._evict()
        entry = self._entries.setdefault(key, _CacheEntry(self._folder / str(next(self._numbers))))
        self._entries.move_to_end(key)
        entry.users += 1
        try:
            async with entry.lock:
                if entry.size is None:
                    await make(entry.path)
                    entry.size, entry.created_at = entry.path.stat().st_size, self._now()
            yield entry.path
        finally:
            entry.users -= 1
            self._evict()

    def _evict(self) -> None:
        oldest = self._now() - self._seconds
        total = sum(entry.size or 0 for entry in self._entries.values())
        for key, entry in list(self._entries.items()):
            if entry.users:
                continue
            if entry.size is None or entry.created_at < oldest or total > self._max_bytes:
                total -= entry.size or 0
                entry.path.unlink(missing_ok=True)
                del self._entries[key]
