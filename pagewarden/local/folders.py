"""Private files and folders of the embedded server.

As root, some of them belong to the server's account, which could put links there: a server
that was broken into must not be a way to root. So none of these functions follows a link.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from pagewarden.local import account as accounts

# pg_ctl hands paths to a shell inside double quotes.
_UNSAFE = frozenset('"$`\\\n\r')


def make_home(home: Path, account: accounts.Account) -> Path:
    """Make the home folder unless it is there, and return its real path.

    One that is there is left as it is. Only its owner can read a new one; the server's account,
    where it is another one, may pass through.
    """
    home = home.expanduser().resolve()
    if unsafe := _UNSAFE.intersection(str(home)):
        raise errors.LocalStackError(
            f"the path {str(home)!r} has {''.join(sorted(unsafe))!r} in it, which the programs of "
            "Postgres do not bear; set PAGEWARDEN_HOME to another folder"
        )
    if not home.exists():
        _make_home(home, account)
    return home


def _make_home(home: Path, account: accounts.Account) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that a second start never sees it half made.
    unfinished = tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent)
    if account.separate:
        os.chown(unfinished, -1, account.gid)
        os.chmod(unfinished, 0o710)  # noqa: PTH101, S103  # passage for this one group only
    try:
        os.rename(unfinished, home)  # noqa: PTH104  # a name, not a Path, comes from mkdtemp
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not home.is_dir():
            raise


def make_private(folder: Path, account: accounts.Account) -> None:
    """Make a folder that only the account can enter; refuse one that somebody else made."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if account.separate and found.st_uid == os.geteuid():
        account.own(folder)
        found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
    if not private or found.st_uid != account.uid:
        raise errors.LocalStackError(
            f"{folder} must be a folder of the account {account.name!r} that nobody else can "
            "enter; remove it and start again"
        )


def make_secret(path: Path, account: accounts.Account) -> str:
    """Read the secret in this file, making both when they are missing."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with _open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY) as file:
            file.write(secrets.token_urlsafe(24).encode())
            file.flush()
            os.fsync(file.fileno())
        account.own(unfinished)
        unfinished.rename(path)
    with _open(path, os.O_RDONLY) as file:
        return file.read().decode("ascii").strip()


def append(path: Path, text: str) -> None:
    """Add text to the end of a file that exists."""
    with _open(path, os.O_WRONLY | os.O_APPEND) as file:
        file.write(text.encode())


def read_from(path: Path, position: int) -> str:
    """Read a file from this byte on; nothing if there is no such file."""
    with contextlib.suppress(FileNotFoundError), _open(path, os.O_RDONLY) as file:
        file.seek(position)
        return file.read().decode(errors="replace")
    return ""


def open_lock(path: Path) -> int:
    """Open a file to lock, making it when it is missing; the number is the caller's to close."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _open(path: Path, flags: int) -> Iterator[BinaryIO]:
    with os.fdopen(
        os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600),
        "rb" if flags == os.O_RDONLY else "wb",
        buffering=0,
    ) as file:
        yield file
