"""A folder for files that are being read, which does not outlive its process for long."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "pagewarden-files-"
_LOCK = "in-use"


@contextlib.contextmanager
def folder(within: Path | None = None, *, owner: str = "") -> Iterator[Path]:
    """Have a folder that nobody else can look into; those of processes that were killed go.

    It is within the folder for temporary files, or within another; owner is a part of its name.
    """
    parent = within or Path(tempfile.gettempdir())
    _tidy(parent)
    place = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{owner}", dir=parent))
    try:
        # Locked before it gets the name by which others look for it.
        with (place / "new").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (place / "new").rename(place / _LOCK)
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _tidy(parent: Path) -> None:
    for place in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or being removed just now
            if place.lstat().st_uid == os.geteuid() and _is_abandoned(place):
                shutil.rmtree(place, ignore_errors=True)


def _is_abandoned(place: Path) -> bool:
    with (place / _LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
