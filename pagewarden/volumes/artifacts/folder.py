"""A folder of this machine as a bucket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Self

from pagewarden import concurrency, errors
from pagewarden.files import disk, paths
from pagewarden.files import scratch as scratch_folders
from pagewarden.volumes.artifacts import interface

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

_OTHERWISE = "give another bucket"
# Within the bucket, so that publishing is renaming; hidden, so that nobody takes it for more.
_UNPUBLISHED = ".unpublished"
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class Folder:
    """A folder; artifacts make it, originals have to be there."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        """Name the folder."""
        return str(self._root)

    async def prepare(self) -> None:
        """Make it."""
        with self._translated():
            await asyncio.to_thread(self._root.mkdir, parents=True, exist_ok=True)

    async def list(self, folder: str) -> AsyncGenerator[interface.Entry, None]:
        """Go through its files."""
        with self._translated():
            found = await asyncio.to_thread(lambda: list(self._walk(folder)))
        for entry in found:
            yield entry

    async def get(self, key: str) -> bytes:
        """Read a file."""
        with self._translated(key):
            return await asyncio.to_thread(self._path(key).read_bytes)

    async def digest(self, key: str) -> str:
        """Read a file piece by piece."""
        with self._translated(key):
            return await asyncio.to_thread(_digest, self._path(key))

    async def fetch(self, key: str, target: Path) -> None:
        """Link to a file: who publishes another one puts it in its place, and changes nothing."""
        with self._translated(key):
            await concurrency.run_in_thread(_link, self._path(key), target)

    @contextlib.contextmanager
    def scratch(self, owner: str) -> Iterator[Path]:
        """Have a folder beside the artifacts."""
        place = self._root / _UNPUBLISHED
        with self._translated():
            place.mkdir(parents=True, exist_ok=True)
        with scratch_folders.folder(place, owner=f"{paths.safe_name(owner)}-") as made:
            yield made

    async def publish(self, made: Path, key: str) -> None:
        """Rename it."""
        with self._translated():
            await concurrency.run_in_thread(_move, made, self._path(key))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*paths.check_path(key))

    def _walk(self, folder: str) -> Iterator[interface.Entry]:
        """Look for files; the folder itself may be missing, its bucket may not."""
        next(self._root.iterdir(), None)
        top = self._root.joinpath(*paths.check_prefix(folder))
        for place, folders, names in os.walk(top):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = self._root.joinpath(place, name)
                if not name.startswith(".") and path.is_file():
                    key = path.relative_to(self._root).as_posix()
                    yield interface.Entry(key, path.stat().st_size)

    @contextlib.contextmanager
    def _translated(self, key: str | None = None) -> Iterator[None]:
        try:
            with disk.translated(self._root, otherwise=_OTHERWISE):
                yield
        except errors.FileStoreError as exc:
            missing = isinstance(exc.__cause__, _NO_FILE) and self._root.is_dir()
            if key is None or not missing:
                raise
            raise errors.FileNotThere(f"there is no file {key!r} in {self._root}") from exc


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _move(made: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    made.replace(target)
