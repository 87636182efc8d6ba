"""What comes in: regrouped into blocks, counted, hashed, and held to its limit."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.files import interface

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable


class Intake:
    """A source of bytes that is read once."""

    def __init__(self, chunks: AsyncIterable[bytes], limit: int | None) -> None:
        self._chunks = chunks
        self._limit = limit
        self._sha256 = hashlib.sha256()
        self._size = 0

    async def blocks(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yield blocks of exactly this size, and then what remains, if anything does."""
        pending = bytearray()
        async for chunk in self._chunks:
            self._count(chunk)
            pending += chunk
            while len(pending) >= size:
                block = bytes(memoryview(pending)[:size])
                del pending[:size]
                yield await self._hashed(block)
        if pending:
            yield await self._hashed(bytes(pending))

    def stored(self, path: str) -> interface.Stored:
        """Sum up, once all blocks were taken."""
        return interface.Stored(path, self._size, self._sha256.hexdigest())

    def _count(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._limit is not None and self._size > self._limit:
            raise errors.FileTooLarge(
                f"the file has more than {self._limit} bytes; send a smaller one, or split it",
                limit=self._limit,
            )

    async def _hashed(self, block: bytes) -> bytes:
        await asyncio.to_thread(self._sha256.update, block)
        return block
