"""A tree of private files below one folder. Nobody is led out of it: no link is ever followed.

Everything here waits for the disk, so it is called in threads.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pagewarden.files import interface, paths

if TYPE_CHECKING:
    import io
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

INCOMING = ".incoming"  # paths.check_path lets no file have this name

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe that somebody put there would hold us up.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_TRIES_AT_A_FOLDER = 100

# What is said of a path where there is something else than folders, or nothing.
ABSENT = (FileNotFoundError, NotADirectoryError)


@contextlib.contextmanager
def opened(root: Path, folders: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Give the descriptor of a folder below root; raises ABSENT when there is none."""
    number = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folders:
            if create:
                _make_folder(name, number)
            inner = os.open(name, _FOLDER, dir_fd=number)
            os.close(number)
            number = inner
        yield number
    finally:
        os.close(number)


def _make_folder(name: str, within: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, mode=0o700, dir_fd=within)
        os.fsync(within)


def make_root(root: Path) -> None:
    """Make the folder and that for unfinished files, unless they are there."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (root / INCOMING).mkdir(mode=0o700)


def is_store(root: Path) -> bool:
    """Tell whether files were ever kept here; a disk that is not mounted looks empty."""
    return (root / INCOMING).is_dir()


def require_store(root: Path) -> None:
    """Raise OSError where the store as a whole cannot be used."""
    with opened(root, [INCOMING]):
        pass


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is being written, out of everybody's sight."""

    root: Path
    name: str
    file: io.FileIO

    @classmethod
    def create(cls, root: Path) -> Part:
        """Begin a file."""
        make_root(root)
        name = uuid.uuid4().hex
        with opened(root, [INCOMING]) as incoming:
            number = os.open(name, _NEW_FILE, mode=0o600, dir_fd=incoming)
        return cls(root, name, os.fdopen(number, "wb", buffering=0))

    def publish(self, parts: Sequence[str]) -> None:
        """Let it appear where it belongs, once it is safely on the disk, and discard the part.

        Both is one step for the caller: between two a cancellation would leave the file behind.
        Raises FileExistsError, or NotADirectoryError when a file stands where a folder should.
        """
        os.fsync(self.file.fileno())
        self._link_into_folder(parts)
        with contextlib.suppress(OSError):  # then it is left to tidy()
            self.discard()

    def _link_into_folder(self, parts: Sequence[str]) -> None:
        for _ in range(_TRIES_AT_A_FOLDER - 1):
            # A deletion of the last file of a folder removes the folder, perhaps just now.
            with contextlib.suppress(FileNotFoundError):
                return self._link(parts)
        return self._link(parts)

    def discard(self) -> None:
        """Remove the part; the published file stays."""
        self.file.close()
        with contextlib.suppress(FileNotFoundError), opened(self.root, [INCOMING]) as incoming:
            os.unlink(self.name, dir_fd=incoming)

    def _link(self, parts: Sequence[str]) -> None:
        *folders, name = parts
        with (
            opened(self.root, [INCOMING]) as incoming,
            opened(self.root, folders, create=True) as folder,
        ):
            # Unlike a rename, a link never replaces what is there.
            os.link(
                *(self.name, name), src_dir_fd=incoming, dst_dir_fd=folder, follow_symlinks=False
            )
            try:
                os.fsync(folder)
            except OSError:
                os.unlink(name, dir_fd=folder)
                raise


def open_file(root: Path, parts: Sequence[str], start: int) -> int:
    """Open a file for reading from start on; raises ABSENT when there is none."""
    *folders, name = parts
    with opened(root, folders) as folder:
        _look(name, folder)
        number = os.open(name, _FILE, dir_fd=folder)
    os.lseek(number, start, os.SEEK_SET)
    return number


def look(root: Path, parts: Sequence[str]) -> interface.Entry:
    """Describe a file; raises ABSENT when there is none."""
    *folders, name = parts
    with opened(root, folders) as folder:
        return _entry("/".join(parts), _look(name, folder))


def remove(root: Path, parts: Sequence[str]) -> None:
    """Remove a file, and the folders that are empty without it; raises ABSENT."""
    *folders, name = parts
    with opened(root, folders) as folder:
        _look(name, folder)
        os.unlink(name, dir_fd=folder)
        os.fsync(folder)
    with contextlib.suppress(OSError):  # not empty, or already gone
        while folders:
            last = folders.pop()
            with opened(root, folders) as outer:
                os.rmdir(last, dir_fd=outer)


def walk(root: Path, folders: Sequence[str]) -> Generator[interface.Entry, None, None]:
    """Go through the files below a folder that have paths in our sense."""
    with contextlib.suppress(*ABSENT), opened(root, folders) as top:
        for below, _, names, folder in os.fwalk(".", dir_fd=top, onerror=_raise):
            outer = [*folders, *below.split("/")[1:]]
            for name in names:
                path = "/".join([*outer, name])
                if paths.is_path(path):
                    with contextlib.suppress(*ABSENT):
                        yield _entry(path, _look(name, folder))


def tidy(root: Path, before: datetime) -> int:
    """Remove unfinished files that nobody wrote to since."""
    removed = 0
    with contextlib.suppress(*ABSENT), opened(root, [INCOMING]) as incoming:
        with os.scandir(incoming) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            with contextlib.suppress(*ABSENT):
                if _entry(name, _look(name, incoming)).modified < before:
                    os.unlink(name, dir_fd=incoming)
                    removed += 1
    return removed


def _raise(exc: OSError) -> None:
    if not isinstance(exc, ABSENT):  # or it was removed while we looked
        raise exc


def _look(name: str, folder: int) -> os.stat_result:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(name)
    return found


def _entry(path: str, found: os.stat_result) -> interface.Entry:
    return interface.Entry(path, found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))
