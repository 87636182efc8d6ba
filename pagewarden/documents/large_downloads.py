"""Downloads that are too large for a response: a temporary file in the store, and a link to it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import concurrency, storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden.database import Database
    from pagewarden.storage.base import FileStore
    from pagewarden.storage.signed_urls import LinkFactory

KEEP_SECONDS = 24 * 3600

_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class LargeDownloads:
    """Stores downloads of more than `limit` bytes; None means that responses have no limit."""

    database: Database
    store: FileStore
    links: LinkFactory
    limit: int | None

    async def make_file_link(self, file: Path, name: str) -> str | None:
        """Return a temporary link to a copy of a local file, or None if it fits in a response."""
        if self._fits((await concurrency.run_in_thread(file.stat)).st_size):
            return None
        return await self._publish(_read_file(file), name)

    async def make_link(self, content: bytes, name: str) -> str | None:
        """Return a temporary link to this content, or None if it fits in a response."""
        return None if self._fits(len(content)) else await self._publish(_yield_once(content), name)

    def _fits(self, size: int) -> bool:
        return self.limit is None or size <= self.limit

    async def _publish(self, chunks: AsyncIterator[bytes], name: str) -> str:
        path = f"exports/{uuid.uuid4()}/{storage.make_safe_name(name)}"
        # Recorded before it is written, so that retention removes it whatever happens.
        await self.database.add_temporary_file(path=path, seconds=KEEP_SECONDS)
        await self.store.write(path, chunks)
        return await self.links.make_file_link(path)


async def _read_file(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await concurrency.run_in_thread(file.read, _READ_BYTES):
            yield chunk


async def _yield_once(content: bytes) -> AsyncIterator[bytes]:
    yield content
