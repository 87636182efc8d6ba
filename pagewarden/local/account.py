"""The account the server runs as: the user's own, or a separate one when the user is root.

Postgres refuses to run as root. Root's server therefore runs as the system account
``pagewarden``, which owns the data and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from pathlib import Path

NAME = "pagewarden"

# The server gets no other variable: neither PG* ones that would change what it does, nor secrets.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended, and all that it printed."""

    returncode: int
    output: str


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server and owns its data."""

    name: str
    uid: int
    gid: int

    @property
    def separate(self) -> bool:
        """Tell whether this is another account than the caller's."""
        return self.uid != os.geteuid()

    def own(self, path: Path) -> None:
        """Hand a file or folder to this account."""
        if self.separate:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    async def run(self, *command: str | Path) -> Finished:
        """Run a program as this account, in a session of its own: Ctrl-C does not reach it."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # The caller's own folder may be closed to the account.
            cwd="/",
            env=_ENVIRONMENT,
            umask=0o077,
            start_new_session=True,
            user=self.uid if self.separate else None,
            group=self.gid if self.separate else None,
            extra_groups=[] if self.separate else None,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        return Finished(process.returncode or 0, output.decode(errors="replace"))

    async def require_reach(self, folder: Path) -> None:
        """Refuse a folder that this account cannot get to, and name the closed parent."""
        if not self.separate:
            return
        script = 'for f do [ -x "$f" ] || { printf %s "$f"; exit 1; }; done'
        parents = [*reversed(folder.parents), folder]
        result = await self.run("/bin/sh", "-c", script, "sh", *parents)
        if result.returncode:
            raise errors.LocalStackError(
                f"the server cannot run as root, and the account {self.name!r} it runs as cannot "
                f"enter {result.output}; set PAGEWARDEN_HOME to a folder everybody can reach "
                "(what is in it stays private), for example /var/lib/pagewarden"
            )


async def of_server() -> Account:
    """Choose the account; as root create it when it is missing."""
    if os.geteuid() != 0:
        return Account(str(os.geteuid()), os.geteuid(), os.getegid())
    return _lookup() or await _create()


def _lookup() -> Account | None:
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        return None
    return Account(NAME, entry.pw_uid, entry.pw_gid)


async def _create() -> Account:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    reason = "there is no useradd here"
    if useradd is not None:
        me = Account("root", os.geteuid(), os.getegid())
        result = await me.run(
            *(useradd, "--system", "--user-group", "--no-create-home"),
            *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", NAME),
        )
        # Checked by looking, not by the exit code: another start may have been quicker.
        if account := _lookup():
            return account
        reason = result.output.strip()
    raise errors.LocalStackError(
        f"Postgres cannot run as root, and the account {NAME!r} for it cannot be created "
        f"({reason}); create a system account of that name, or start as an ordinary user"
    )
