"""The account that the embedded server runs as, and its private files.

Postgres refuses to run as root, so root's server runs as the system account `pagewarden`, which
owns the data and nothing else; any other user's server runs as that user.

Some files in root's home belong to the server's account, which could replace them by links. No
function here follows a link, so that a compromised server does not lead to root.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import stat
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

NAME = "pagewarden"

# No other variable is passed on: PG* would change the server's behaviour, others are secrets.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}

# pg_ctl passes paths to a shell inside double quotes.
_UNSAFE_CHARACTERS = frozenset('"$`\\\n\r')


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """Exit code and output of a program."""

    returncode: int
    output: str


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account that runs the server and owns its data."""

    name: str
    uid: int
    gid: int

    @property
    def is_separate(self) -> bool:
        """Whether this account differs from the caller's."""
        return self.uid != os.geteuid()

    def chown(self, path: Path) -> None:
        """Make this account the owner of a file or folder."""
        if self.is_separate:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    async def run(self, *command: str | Path) -> ProcessResult:
        """Run a program as this account, in a separate session that Ctrl-C does not reach."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # The caller's working directory may be closed to the account.
            cwd="/",
            env=_ENVIRONMENT,
            umask=0o077,
            start_new_session=True,
            user=self.uid if self.is_separate else None,
            group=self.gid if self.is_separate else None,
            extra_groups=[] if self.is_separate else None,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return ProcessResult(process.returncode or 0, output.decode(errors="replace"))

    async def check_access(self, folder: Path) -> None:
        """Raise an error that names the parent folder which this account cannot enter."""
        if not self.is_separate:
            return
        script = 'for f do [ -x "$f" ] || { printf %s "$f"; exit 1; }; done'
        parents = [*reversed(folder.parents), folder]
        result = await self.run("/bin/sh", "-c", script, "sh", *parents)
        if result.returncode:
            raise errors.LocalStackError(
                f"the server cannot run as root, and the account {self.name!r} it runs as cannot "
                f"enter {result.output}; set PAGEWARDEN_HOME to a folder that all users can enter "
                "(its contents stay private), for example /var/lib/pagewarden"
            )


async def find_server_account() -> ServerAccount:
    """Return the user's account or, as root, the system account, which is created if missing."""
    if os.geteuid() != 0:
        return ServerAccount(str(os.geteuid()), os.geteuid(), os.getegid())
    if account := _lookup_account():
        return account
    with _lock_account_creation():
        return _lookup_account() or await _create()


def _lookup_account() -> ServerAccount | None:
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        return None
    return ServerAccount(NAME, entry.pw_uid, entry.pw_gid)


@contextlib.contextmanager
def _lock_account_creation() -> Iterator[None]:
    """Allow only one process at a time to create the account.

    Of two concurrent useradd, both can succeed: the second overwrites the account of the first,
    and what the first process creates then belongs to an id without an account.
    """
    descriptor = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def _create() -> ServerAccount:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    reason = "useradd is not installed"
    if useradd is not None:
        root = ServerAccount("root", os.geteuid(), os.getegid())
        result = await root.run(
            *(useradd, "--system", "--user-group", "--no-create-home"),
            *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", NAME),
        )
        # Not checked by the exit code: another program may have created the account.
        if account := _lookup_account():
            return account
        reason = result.output.strip()
    raise errors.LocalStackError(
        f"Postgres cannot run as root, and the account {NAME!r} for it cannot be created "
        f"({reason}); create a system account with that name, or start as an ordinary user"
    )


def make_home(home: Path, account: ServerAccount) -> Path:
    """Create the home folder unless it exists, and return its real path.

    An existing folder is not changed. A new one can be read by its owner only; a separate account
    of the server may pass through.
    """
    home = home.expanduser().resolve()
    if unsafe := _UNSAFE_CHARACTERS.intersection(str(home)):
        raise errors.LocalStackError(
            f"the path {str(home)!r} contains {''.join(sorted(unsafe))!r}, which Postgres "
            "programs cannot handle; set PAGEWARDEN_HOME to another folder"
        )
    if not home.exists():
        _make_home(home, account)
    return home


def _make_home(home: Path, account: ServerAccount) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, so that a concurrent start never sees an incomplete folder.
    unfinished = tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent)
    if account.is_separate:
        os.chown(unfinished, -1, account.gid)
        os.chmod(unfinished, 0o710)  # noqa: PTH101, S103  # this one group may pass through
    try:
        os.rename(unfinished, home)  # noqa: PTH104  # a name, not a Path, comes from mkdtemp
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not home.is_dir():
            raise


def create_private_folder(folder: Path, account: ServerAccount) -> None:
    """Create a folder that only the account can enter; raise if another user created it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if account.is_separate and status.st_uid == os.geteuid():
        account.chown(folder)
        status = folder.lstat()
    is_private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o077 == 0
    if not is_private or status.st_uid != account.uid:
        raise errors.LocalStackError(
            f"{folder} must be owned by the account {account.name!r} and inaccessible to all "
            "others; remove it and start again"
        )


def read_or_create_secret(path: Path, account: ServerAccount) -> str:
    """Return the secret in this file; create both if they are missing."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        with _open_file(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY) as file:
            file.write(secrets.token_urlsafe(24).encode())
            file.flush()
            os.fsync(file.fileno())
        account.chown(unfinished)
        unfinished.rename(path)
    with _open_file(path, os.O_RDONLY) as file:
        return file.read().decode("ascii").strip()


def append_text(path: Path, text: str) -> None:
    """Append text to an existing file."""
    with _open_file(path, os.O_WRONLY | os.O_APPEND) as file:
        file.write(text.encode())


def read_text_from(path: Path, position: int) -> str:
    """Return the text of a file from this byte on; empty if the file is missing."""
    with contextlib.suppress(FileNotFoundError), _open_file(path, os.O_RDONLY) as file:
        file.seek(position)
        return file.read().decode(errors="replace")
    return ""


def open_lock(path: Path) -> int:
    """Open or create a lock file and return its descriptor, which the caller closes."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _open_file(path: Path, flags: int) -> Iterator[BinaryIO]:
    with os.fdopen(
        os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600),
        "rb" if flags == os.O_RDONLY else "wb",
        buffering=0,
    ) as file:
        yield file
