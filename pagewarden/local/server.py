"""The embedded server: started by the first program that needs it, stopped by the last.

Each program holds a shared lock on a file in home as long as it uses the server. Whoever can
turn its own into an exclusive one is the last. The kernel gives up the locks of a killed
program, so a server left behind is found, used, and stopped by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from pagewarden import errors
from pagewarden.local import account as accounts
from pagewarden.local import binaries, folders
from pagewarden.local import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_POLL_SECONDS = 0.02

# Files in home.
_CHANGE = "change.lock"
_USE = "use.lock"
_PASSWORD = "password"  # noqa: S105  # the name of the file


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server, and the ways to it."""

    cluster: clusters.Cluster
    address: clusters.Address
    password: str = field(repr=False)

    @property
    def version(self) -> str:
        """Version of Postgres, for example 18.6."""
        return self.cluster.programs.version

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Address over the socket, for programs of the same account (and root)."""
        host = quote(str(self.address.folder), safe="")
        return f"{self._login(role)}@/{quote(database)}?host={host}&port={self.address.port}"

    def tcp_url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Address over 127.0.0.1, for everything that cannot use the socket."""
        return f"{self._login(role)}@127.0.0.1:{self.address.port}/{quote(database)}"

    def _login(self, role: str) -> str:
        return f"postgresql://{quote(role, safe='')}:{quote(self.password, safe='')}"

    async def restart(self, mode: clusters.StopMode = clusters.StopMode.FAST) -> None:
        """Stop the server and start it again at the same address."""
        async with _locked(self.cluster.home):
            await self.cluster.stop(mode)
            await self.cluster.ensure_running(port=self.address.port)

    async def revive(self) -> None:
        """Start the server again if it has died, at the same address."""
        async with _locked(self.cluster.home):
            await self.cluster.ensure_running(port=self.address.port)


@contextlib.asynccontextmanager
async def running(
    home: Path, *, bin_dir: Path | None = None, durable: bool = True
) -> AsyncIterator[LocalServer]:
    """Use the server of this home, and stop it afterwards unless somebody else uses it.

    bin_dir has the programs of another Postgres than the one that is installed with us.
    Without durable it is quicker, and a crash of the machine loses data; for tests.
    """
    with _explained(home):
        cluster, use = await _enter(home, bin_dir, durable=durable)
    try:
        with _explained(home):
            server = await _start(cluster)
        yield server
    finally:
        await _leave(cluster, use)


async def _enter(
    home: Path, bin_dir: Path | None, *, durable: bool
) -> tuple[clusters.Cluster, int]:
    """Prepare the home and count ourselves among its users."""
    account = await accounts.of_server()
    home = folders.make_home(home, account)
    await account.require_reach(home)
    async with _locked(home):
        programs = await binaries.find(account, home, bin_dir)
        use = folders.open_lock(home / _USE)
        fcntl.flock(use, fcntl.LOCK_SH)
    return clusters.Cluster(home, account, programs, durable), use


async def _start(cluster: clusters.Cluster) -> LocalServer:
    async with _locked(cluster.home):
        password = _password(cluster)
        await cluster.create(cluster.home / _PASSWORD)
        return LocalServer(cluster, await cluster.ensure_running(), password)


async def _leave(cluster: clusters.Cluster, use: int) -> None:
    try:
        async with _locked(cluster.home):
            if _try_lock(use):
                await cluster.stop()
    finally:
        _unlock(use)


def _password(cluster: clusters.Cluster) -> str:
    path = cluster.home / _PASSWORD
    if cluster.data.exists() and not path.exists():
        raise errors.LocalStackError(
            f"{path} is missing, and without it nobody gets into {cluster.data}; "
            "put it back, or set PAGEWARDEN_HOME to another folder"
        )
    return folders.make_secret(path, cluster.account)


@contextlib.asynccontextmanager
async def _locked(home: Path) -> AsyncIterator[None]:
    """Keep everybody else from starting and stopping this server."""
    lock = folders.open_lock(home / _CHANGE)
    try:
        # Not a blocking call in a thread: that could not be cancelled.
        while not _try_lock(lock):  # noqa: ASYNC110  # no event comes from another process
            await asyncio.sleep(_POLL_SECONDS)
        yield
    finally:
        _unlock(lock)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: int) -> None:
    # Closing alone would not do while a forked child still has the file open.
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


@contextlib.contextmanager
def _explained(home: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as exc:
        raise errors.LocalStackError(
            f"no permission for {exc.filename or home}; start as the owner of {home}, "
            "or set PAGEWARDEN_HOME to a folder of your own"
        ) from exc
    except OSError as exc:
        raise errors.LocalStackError(
            f"the embedded server cannot be set up in {home}: {exc}; "
            "mend that, or set PAGEWARDEN_HOME to another folder"
        ) from exc
