"""A program that writes and reads large files and prints its peak memory."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import settings, storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MEBIBYTE = 1024 * 1024
# Sizes of the files in MiB.
SMALL, LARGE = 16, 80


async def _source(mebibytes: int) -> AsyncIterator[bytes]:
    for number in range(mebibytes * 16):
        yield bytes([number % 256]) * (MEBIBYTE // 16)


async def _stream(store: storage.FileStore, name: str, mebibytes: int) -> None:
    await store.write(name, _source(mebibytes))
    read = 0
    async for chunk in store.read(name):
        read += len(chunk)
    assert read == mebibytes * MEBIBYTE


def _peak() -> int:
    """Return the peak memory of this process in KiB."""
    match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert match
    return int(match[1])


async def main() -> None:
    """Stream a small and a large file, and print the peak after each."""
    async with storage.open_store(settings.load()) as store:
        for mebibytes in (SMALL, LARGE):
            await _stream(store, f"file-{mebibytes}", mebibytes)
            sys.stdout.write(f"{_peak()}\n")


if __name__ == "__main__":
    asyncio.run(main())
