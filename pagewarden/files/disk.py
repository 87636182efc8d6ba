"""Errors of a disk as errors of ours, and files that appear on it all at once."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import concurrency, errors

if TYPE_CHECKING:
    import io
    from collections.abc import AsyncIterator, Iterator

ANOTHER_STORE = "set PAGEWARDEN_FILES to another"

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset(
    {errno.EACCES, errno.EEXIST, errno.ENOTDIR, errno.ENOTSUP, errno.EPERM, errno.EROFS}
)


@contextlib.contextmanager
def translated(folder: Path, *, otherwise: str = ANOTHER_STORE) -> Iterator[None]:
    """Raise errors of ours for those of the system about this folder; otherwise is advice."""
    try:
        yield
    except OSError as exc:
        raise _of(exc, folder, otherwise) from exc


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write until nothing is left; a full disk may take a piece and refuse the next."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


async def save(chunks: AsyncIterator[bytes], target: Path) -> None:
    """Write a file that only we can read; the target is replaced when all has come."""
    with translated(target.parent):
        number, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(number, "wb", buffering=0) as file:
            async for chunk in chunks:
                with translated(target.parent):
                    await concurrency.run_in_thread(write_all, file, chunk)
        with translated(target.parent):
            await concurrency.run_in_thread(part.replace, target)
    finally:
        await concurrency.run_in_thread(part.unlink, missing_ok=True)


def _of(exc: OSError, folder: Path, otherwise: str) -> errors.FileStoreError:
    if exc.errno in _FULL:
        return errors.StoreFull(f"the disk of {folder} is full ({exc.strerror}); make room on it")
    if exc.errno in _CLOSED or isinstance(exc, FileNotFoundError):
        return errors.StoreUnusable(
            f"{folder} cannot be used ({exc.strerror}); make it a folder that we may write to, or "
            f"{otherwise}"
        )
    return errors.StoreAway(f"the disk of {folder} does not work ({exc}); see to it")
