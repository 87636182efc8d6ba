"""FolderBucket: a local folder as a bucket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Self

from pagewarden import concurrency, errors
from pagewarden.storage import paths, scratch
from pagewarden.volumes.artifacts import base

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

_ALTERNATIVE = "specify another bucket"
# Inside the bucket, so that publishing is a rename; hidden, so that it is not listed.
_UNPUBLISHED = ".unpublished"
_MISSING_FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class FolderBucket:
    """A folder; prepare() creates the one for artifacts, that of originals must exist."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def address(self) -> str:
        """Return the path of the folder."""
        return str(self._root)

    async def prepare(self) -> None:
        """Create the folder."""
        with self._translate_errors():
            await asyncio.to_thread(self._root.mkdir, parents=True, exist_ok=True)

    async def list(self, folder: str) -> AsyncGenerator[base.Entry, None]:
        """Iterate over the files below a folder."""
        with self._translate_errors():
            entries = await asyncio.to_thread(lambda: list(self._walk(folder)))
        for entry in entries:
            yield entry

    async def get(self, key: str) -> bytes:
        """Read a file."""
        with self._translate_errors(key):
            return await asyncio.to_thread(self._path(key).read_bytes)

    async def digest(self, key: str) -> str:
        """Read a file in chunks and return its SHA-256."""
        with self._translate_errors(key):
            return await asyncio.to_thread(_compute_sha256, self._path(key))

    async def fetch(self, key: str, target: Path) -> None:
        """Hard-link to a file; publishing replaces files, so a linked one never changes."""
        with self._translate_errors(key):
            await concurrency.run_in_thread(_link, self._path(key), target)

    @contextlib.contextmanager
    def scratch(self, owner: str) -> Iterator[Path]:
        """Create a folder beside the artifacts; it is removed at the end."""
        parent = self._root / _UNPUBLISHED
        with self._translate_errors():
            parent.mkdir(parents=True, exist_ok=True)
        with scratch.open_private_folder(parent, owner=f"{paths.make_safe_name(owner)}-") as path:
            yield path

    async def publish(self, path: Path, key: str) -> None:
        """Rename a file."""
        with self._translate_errors():
            await concurrency.run_in_thread(_publish, path, self._path(key))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*paths.check_path(key))

    def _walk(self, folder: str) -> Iterator[base.Entry]:
        """Find files; a missing folder is empty, a missing bucket is an error."""
        next(self._root.iterdir(), None)
        top = self._root.joinpath(*paths.check_prefix(folder))
        for parent, folders, names in os.walk(top):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = self._root.joinpath(parent, name)
                if not name.startswith(".") and path.is_file():
                    key = path.relative_to(self._root).as_posix()
                    yield base.Entry(key, path.stat().st_size)

    @contextlib.contextmanager
    def _translate_errors(self, key: str | None = None) -> Iterator[None]:
        try:
            with scratch.translate_os_errors(self._root, alternative=_ALTERNATIVE):
                yield
        except errors.FileStoreError as exc:
            missing = isinstance(exc.__cause__, _MISSING_FILE_ERRORS) and self._root.is_dir()
            if key is None or not missing:
                raise
            raise errors.FileNotFound(f"there is no file {key!r} in {self._root}") from exc


def _compute_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)


def _publish(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)
