"""The embedded server: the first program that needs it starts it, the last one stops it.

Each program holds a shared lock on a file in home while it uses the server; the one that can turn
its lock into an exclusive one is the last. The kernel releases the locks of a killed program, so
the next program finds a server that was left behind, uses it, and stops it.
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
from pagewarden.local import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_POLL_SECONDS = 0.02

# Files in home.
_CHANGE_LOCK = "change.lock"
_USE_LOCK = "use.lock"
_PASSWORD = "password"  # noqa: S105  # the name of the file


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running server, its address and its password."""

    cluster: clusters.Cluster
    address: clusters.ServerAddress
    password: str = field(repr=False)

    @property
    def version(self) -> str:
        """Version of Postgres, for example 18.6."""
        return self.cluster.binaries.version

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Return the URL over the socket, for programs of the same account (and root)."""
        host = quote(str(self.address.folder), safe="")
        return (
            f"{self._make_url_prefix(role)}@/{quote(database)}?host={host}&port={self.address.port}"
        )

    def tcp_url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Return the URL over 127.0.0.1, for programs that cannot use the socket."""
        return f"{self._make_url_prefix(role)}@127.0.0.1:{self.address.port}/{quote(database)}"

    async def restart(self, mode: clusters.StopMode = clusters.StopMode.FAST) -> None:
        """Stop the server and start it again at the same address."""
        async with _lock_home(self.cluster.home):
            await self.cluster.stop(mode)
            await self.cluster.ensure_running(port=self.address.port)

    async def ensure_running(self) -> None:
        """Start the server at the same address if it has died."""
        async with _lock_home(self.cluster.home):
            await self.cluster.ensure_running(port=self.address.port)

    def _make_url_prefix(self, role: str) -> str:
        return f"postgresql://{quote(role, safe='')}:{quote(self.password, safe='')}"


@contextlib.asynccontextmanager
async def open_server(
    home: Path, *, bin_dir: Path | None = None, durable: bool = True
) -> AsyncIterator[LocalServer]:
    """Use the server of this home, and stop it at the end unless other programs use it.

    bin_dir has the programs of another Postgres than the installed one. Without `durable` the
    server is faster, and a crash of the machine loses data; for tests.
    """
    with _translate_errors(home):
        cluster, use_lock = await _acquire_server(home, bin_dir, durable=durable)
    try:
        with _translate_errors(home):
            server = await _start_server(cluster)
        yield server
    finally:
        await _release_server(cluster, use_lock)


async def _acquire_server(
    home: Path, bin_dir: Path | None, *, durable: bool
) -> tuple[clusters.Cluster, int]:
    """Prepare the home, and register this program as a user of the server."""
    account = await accounts.find_server_account()
    home = accounts.make_home(home, account)
    await account.check_access(home)
    async with _lock_home(home):
        binaries = await clusters.find_binaries(account, home, bin_dir)
        use_lock = accounts.open_lock(home / _USE_LOCK)
        fcntl.flock(use_lock, fcntl.LOCK_SH)
    return clusters.Cluster(home, account, binaries, durable), use_lock


async def _start_server(cluster: clusters.Cluster) -> LocalServer:
    async with _lock_home(cluster.home):
        password = _read_password(cluster)
        await cluster.create(cluster.home / _PASSWORD)
        return LocalServer(cluster, await cluster.ensure_running(), password)


async def _release_server(cluster: clusters.Cluster, lock_descriptor: int) -> None:
    try:
        async with _lock_home(cluster.home):
            if _try_lock(lock_descriptor):
                await cluster.stop()
    finally:
        _unlock(lock_descriptor)


def _read_password(cluster: clusters.Cluster) -> str:
    path = cluster.home / _PASSWORD
    if cluster.data_folder.exists() and not path.exists():
        raise errors.LocalStackError(
            f"{path} is missing, and {cluster.data_folder} cannot be used without it; "
            "restore it, or set PAGEWARDEN_HOME to another folder"
        )
    return accounts.read_or_create_secret(path, cluster.account)


@contextlib.asynccontextmanager
async def _lock_home(home: Path) -> AsyncIterator[None]:
    """Keep other programs from starting and stopping this server."""
    lock = accounts.open_lock(home / _CHANGE_LOCK)
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
    # Closing alone would keep the lock while a forked child has the file open.
    fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)


@contextlib.contextmanager
def _translate_errors(home: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as exc:
        raise errors.LocalStackError(
            f"permission denied for {exc.filename or home}; start as the owner of {home}, "
            "or set PAGEWARDEN_HOME to a folder that you own"
        ) from exc
    except OSError as exc:
        raise errors.LocalStackError(
            f"the embedded server cannot be set up in {home}: {exc}; "
            "fix that, or set PAGEWARDEN_HOME to another folder"
        ) from exc
