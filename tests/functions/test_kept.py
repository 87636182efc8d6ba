"""Files that are kept for a while: made once, bounded, soon gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from functions import kept

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def _write(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)


def _count(folder: Path) -> int:
    return len(list(folder.iterdir()))


class _Maker:
    """Writes so many bytes, and counts how often."""

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.times = 0
        self.clock = 0.0

    async def __call__(self, path: Path) -> None:
        self.times += 1
        await asyncio.sleep(0)
        _write(path, self.size)

    def opened(self, folder: Path) -> Callable[[str], Awaitable[bytes]]:
        files = kept.Kept(folder, max_bytes=250, seconds=60, now=lambda: self.clock)

        async def look(key: str) -> bytes:
            async with files.file(key, self) as path:
                return path.read_bytes()

        return look


async def test_a_file_is_made_once_for_all_who_want_it(tmp_path: Path) -> None:
    """Also when they come at the same time."""
    made = _Maker()
    look = made.opened(tmp_path)
    found = await asyncio.gather(*(look("a") for _ in range(5)))
    assert (set(found), made.times) == ({b"x" * 100}, 1)


async def test_what_was_unused_for_longest_makes_room(tmp_path: Path) -> None:
    """There is never more than there may be."""
    made = _Maker()
    look = made.opened(tmp_path)
    for key in ("a", "b", "a", "c"):
        await look(key)
    assert _count(tmp_path) == 2
    await look("a")
    assert made.times == 3
    await look("b")
    assert made.times == 4


async def test_old_files_go(tmp_path: Path) -> None:
    """However often they are used."""
    made = _Maker()
    look = made.opened(tmp_path)
    await look("a")
    made.clock = 61
    await look("b")
    assert _count(tmp_path) == 1


async def test_a_file_in_use_stays(tmp_path: Path) -> None:
    """Even if it is larger than all may be together."""
    files = kept.Kept(tmp_path, max_bytes=1, seconds=60)
    async with files.file("a", _Maker()) as path, files.file("b", _Maker()):
        assert path.exists()
    assert _count(tmp_path) == 0


async def test_what_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    """An error is the answer to whoever asked, and to nobody else."""
    files = kept.Kept(tmp_path, max_bytes=1000, seconds=60)

    async def fail(_path: Path) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        async with files.file("a", fail):
            pass
    async with files.file("a", _Maker()) as path:
        assert path.exists()
