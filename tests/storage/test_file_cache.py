"""The file cache: one creation for each key, eviction by age and size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden.storage import file_cache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def _write(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)


def _count(folder: Path) -> int:
    return len(list(folder.iterdir()))


class _Maker:
    """Writes a file of a given size, and counts the calls."""

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.times = 0
        self.clock = 0.0

    async def __call__(self, path: Path) -> None:
        self.times += 1
        await asyncio.sleep(0)
        _write(path, self.size)

    def cache_reader(self, folder: Path) -> Callable[[str], Awaitable[bytes]]:
        files = file_cache.FileCache(folder, max_bytes=250, seconds=60, now=lambda: self.clock)

        async def read(key: str) -> bytes:
            async with files.get(key, self) as path:
                return path.read_bytes()

        return read


async def test_file_is_created_once_for_concurrent_callers(tmp_path: Path) -> None:
    """They share it."""
    maker = _Maker()
    read = maker.cache_reader(tmp_path)
    contents = await asyncio.gather(*(read("a") for _ in range(5)))
    assert (set(contents), maker.times) == ({b"x" * 100}, 1)


async def test_least_recently_used_file_is_evicted(tmp_path: Path) -> None:
    """The total size is bounded."""
    maker = _Maker()
    read = maker.cache_reader(tmp_path)
    for key in ("a", "b", "a", "c"):
        await read(key)
    assert _count(tmp_path) == 2
    await read("a")
    assert maker.times == 3
    await read("b")
    assert maker.times == 4


async def test_old_files_are_evicted(tmp_path: Path) -> None:
    """Even if they are used often."""
    maker = _Maker()
    read = maker.cache_reader(tmp_path)
    await read("a")
    maker.clock = 61
    await read("b")
    assert _count(tmp_path) == 1


async def test_file_in_use_is_not_evicted(tmp_path: Path) -> None:
    """Even if it exceeds the total size."""
    files = file_cache.FileCache(tmp_path, max_bytes=1, seconds=60)
    async with files.get("a", _Maker()) as path, files.get("b", _Maker()):
        assert path.exists()
    assert _count(tmp_path) == 0


async def test_failed_creation_is_retried_by_the_next_caller(tmp_path: Path) -> None:
    """Only the caller that failed gets the error."""
    files = file_cache.FileCache(tmp_path, max_bytes=1000, seconds=60)

    async def fail(_path: Path) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        async with files.get("a", fail):
            pass
    async with files.get("a", _Maker()) as path:
        assert path.exists()
