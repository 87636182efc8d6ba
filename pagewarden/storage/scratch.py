"""Files on the local disk: private temporary folders, atomic writes, and disk errors."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import concurrency, errors

if TYPE_CHECKING:
    import io
    from collections.abc import AsyncIterator, Iterator

ANOTHER_STORE = "set PAGEWARDEN_FILES to another folder"

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_INACCESSIBLE = frozenset(
    {errno.EACCES, errno.EEXIST, errno.ENOTDIR, errno.ENOTSUP, errno.EPERM, errno.EROFS}
)
_FOLDER_PREFIX = "pagewarden-files-"
_LOCK_NAME = "in-use"


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A file on this machine that is removed after use; `name` is for people who save it."""

    path: Path
    name: str
    media_type: str


@contextlib.contextmanager
def open_private_folder(parent: Path | None = None, *, owner: str = "") -> Iterator[Path]:
    """Create a temporary folder, readable by our account only, and remove it afterwards.

    Folders of processes that were killed are removed too. `parent` is the system's folder for
    temporary files by default; `owner` becomes part of the name.
    """
    parent = parent or Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{owner}", dir=parent))
    try:
        # Locked before it gets the name that other processes check.
        with (folder / "new").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new").rename(folder / _LOCK_NAME)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):  # of another user, or being removed right now
            if folder.lstat().st_uid == os.geteuid() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    with (folder / _LOCK_NAME).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def write_file(chunks: AsyncIterator[bytes], target: Path) -> None:
    """Write a file that only our account can read; it replaces the target when complete."""
    with translate_os_errors(target.parent):
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            async for chunk in chunks:
                with translate_os_errors(target.parent):
                    await concurrency.run_in_thread(write_all, file, chunk)
        with translate_os_errors(target.parent):
            await concurrency.run_in_thread(part.replace, target)
    finally:
        await concurrency.run_in_thread(part.unlink, missing_ok=True)


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write all data; a full disk may accept a part and reject the rest."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


@contextlib.contextmanager
def translate_os_errors(folder: Path, *, alternative: str = ANOTHER_STORE) -> Iterator[None]:
    """Raise FileStoreError for disk errors; `alternative` is advice for the message."""
    try:
        yield
    except OSError as exc:
        raise _make_disk_error(exc, folder, alternative) from exc


def _make_disk_error(exc: OSError, folder: Path, alternative: str) -> errors.FileStoreError:
    if exc.errno in _FULL:
        return errors.StoreFull(
            f"the disk that holds {folder} is full ({exc.strerror}); free up space on it"
        )
    if exc.errno in _INACCESSIBLE or isinstance(exc, FileNotFoundError):
        return errors.StoreMisconfigured(
            f"{folder} cannot be used ({exc.strerror}); make it writable for the account that runs "
            f"Pagewarden, or {alternative}"
        )
    return errors.StoreUnavailable(
        f"the disk that holds {folder} has failed ({exc}); check the disk"
    )
