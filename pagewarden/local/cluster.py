"""One data folder and the server that runs on it: made, started, stopped.

Nothing here is safe to do twice at once; pagewarden.local.server holds a lock around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import hashlib
import os
import re
import shlex
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from psycopg import conninfo, pq

from pagewarden import errors
from pagewarden.local import account as accounts
from pagewarden.local import binaries, folders

SUPERUSER = "supabase_admin"

START_SECONDS = 300
_STOP_SECONDS = 120
_POLL_SECONDS = 0.1
_LOG_BYTES = 10_000_000
# A new data folder takes 40 MB, a segment of the write-ahead log 16 MB.
_FREE_BYTES = 64_000_000
_TAIL_LINES = 15
# Of the platforms at hand macOS has the shortest socket paths: 104 bytes with the final NUL.
_SOCKET_PATH_BYTES = 103

# Kept in the data folder's postgresql.conf, where the user may change them.
_CONFIGURATION = """
# Settings of Pagewarden for a server on one machine; change them as you like.
shared_buffers = 256MB
max_connections = 200
autovacuum_naptime = 10s
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
"""

_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

# What the server says when starting again a moment later can help.
_PASSING = (
    "Address already in use",
    "could not create any TCP/IP sockets",
    "pre-existing shared memory block",
    'lock file "postmaster.pid" already exists',
    '.lock" already exists',
)

_ADVICE = {
    "Permission denied": "see who owns the folders named above",
    "Read-only file system": "set PAGEWARDEN_HOME to a folder that can be written to",
    "Cannot allocate memory": "lower shared_buffers in postgresql.conf of the data folder",
    "could not look up effective user ID": "give the user an entry in /etc/passwd",
}


class StopMode(enum.StrEnum):
    """How a server is stopped: fast ends its sessions, immediate is as good as a crash."""

    FAST = "fast"
    IMMEDIATE = "immediate"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens: a socket in this folder, and this port of 127.0.0.1."""

    folder: Path
    port: int

    async def ping(self) -> pq.Ping:
        """Ask whether a server is there and whether it takes connections."""
        info = conninfo.make_conninfo(
            host=str(self.folder), port=self.port, user=SUPERUSER, connect_timeout=5
        )
        return pq.Ping(await asyncio.to_thread(pq.PGconn.ping, info.encode()))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data folder in home, and how its server is run. Without durable a crash loses data."""

    home: Path
    account: accounts.Account
    programs: binaries.Binaries
    durable: bool

    @property
    def data(self) -> Path:
        """The folder that initdb makes."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """What the server says about itself."""
        return self.home / "run" / "server.log"

    async def create(self, password_file: Path) -> None:
        """Make the data folder unless it is there; one that was left unfinished is made anew."""
        if self.data.exists():
            self._require_fitting_data()
            return
        unfinished = self.home / "data.unfinished"
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self.account.own(unfinished)
        await self._initdb(unfinished, password_file)
        folders.append(unfinished / "postgresql.conf", _CONFIGURATION)
        unfinished.rename(self.data)

    def _require_fitting_data(self) -> None:
        if self.data.stat().st_uid != self.account.uid:
            raise errors.LocalStackError(
                f"{self.data} belongs to another account than {self.account.name!r}, which runs "
                "the server; start as its owner, or set PAGEWARDEN_HOME to another folder"
            )
        version = (self.data / "PG_VERSION").read_text("ascii").strip()
        if version != str(self.programs.major):
            raise errors.LocalStackError(
                f"{self.data} was made by PostgreSQL {version}, the programs at hand are "
                f"{self.programs.version}; copy the data over with pg_dump, "
                "or set PAGEWARDEN_HOME to another folder"
            )

    async def _initdb(self, folder: Path, password_file: Path) -> None:
        for locale in _locales(self.programs.major):
            result = await self.account.run(
                *(self.programs.program("initdb"), "-D", folder, "-U", SUPERUSER),
                *("--auth=scram-sha-256", f"--pwfile={password_file}", "--encoding=UTF8"),
                *(*locale, *(() if self.durable else ("--no-sync",))),
            )
            if result.returncode == 0:
                return
        raise self._failure("the data folder cannot be made", result.output)

    async def ensure_running(self, *, port: int | None = None) -> Address:
        """Start the server unless it runs already; with port, on this one and no other.

        A server that a killed program left behind is taken over, whatever state it is in.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            address = self._recorded_address()
            state = await address.ping() if address else pq.Ping.NO_RESPONSE
            if address and state == pq.Ping.OK:
                return address
            if state == pq.Ping.NO_RESPONSE:
                await self._start(port or _free_port(self._last_port()))
            await asyncio.sleep(_POLL_SECONDS)
        raise self._failure(
            f"the server did not start within {START_SECONDS} s", folders.read_from(self.log, 0)
        )

    async def stop(self, mode: StopMode = StopMode.FAST) -> None:
        """Stop the server if it runs, and wait until it has ended."""
        address = self._recorded_address()
        if address is None or await address.ping() == pq.Ping.NO_RESPONSE:
            return
        result = await self._pg_ctl("stop", "-m", mode, "-t", str(_STOP_SECONDS))
        if result.returncode and mode is StopMode.FAST:
            # Nothing is lost by it: the next start reads the write-ahead log.
            result = await self._pg_ctl("stop", "-m", StopMode.IMMEDIATE)
        if result.returncode and await address.ping() != pq.Ping.NO_RESPONSE:
            raise self._failure("the server does not stop", result.output)
        if address.folder != self.log.parent:
            with contextlib.suppress(OSError):
                address.folder.rmdir()

    def _recorded_address(self) -> Address | None:
        """Read where the server last listened; the file is short while it is being written."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return Address(Path(lines[4]), int(lines[3]))
        except (FileNotFoundError, IndexError, ValueError):
            return None

    def _last_port(self) -> int:
        """Read what the server was last started with; 0 when it never was.

        Unlike its address this stays when it has been shut down in order.
        """
        with contextlib.suppress(FileNotFoundError):
            words = (self.data / "postmaster.opts").read_text()
            if found := re.search(r"\bport=(\d+)", words):
                return int(found[1])
        return 0

    async def _start(self, port: int) -> None:
        self._forget_dead_server()
        folder = self._socket_folder()
        written = self._rotate_log()
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": f'"{folder}"',
            "unix_socket_permissions": "0700",
        } | ({} if self.durable else _NOT_DURABLE)
        arguments = " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in options.items())
        result = await self._pg_ctl("start", "-l", str(self.log), "-t", "60", "-o", arguments)
        if result.returncode and await Address(folder, port).ping() == pq.Ping.NO_RESPONSE:
            said = folders.read_from(self.log, written)
            if not any(passing in said for passing in _PASSING):
                raise self._failure("the server does not start", result.output + said)

    async def _pg_ctl(self, *arguments: str) -> accounts.Finished:
        return await self.account.run(
            self.programs.program("pg_ctl"), "-D", self.data, "-w", *arguments
        )

    def _forget_dead_server(self) -> None:
        """Remove the records of a server that is gone but whose process id is still in use.

        After a crash of the machine the id may be another program's, and in a container nobody
        may collect the dead: Postgres would take either for itself and not start.
        """
        record = self.data / "postmaster.pid"
        with contextlib.suppress(OSError, IndexError, ValueError):
            pid = int(record.read_text().splitlines()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if os.fsencode(self.data) not in command.split(b"\0"):
                record.unlink()
                for leftover in self._socket_folder().glob(".s.PGSQL.*"):
                    leftover.unlink()

    def _socket_folder(self) -> Path:
        folder = self.log.parent
        longest = os.fsencode(folder / ".s.PGSQL.65535")
        # libpq takes a comma for the end of one host and the start of the next.
        if len(longest) > _SOCKET_PATH_BYTES or b"," in longest:
            name = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
            # Not TMPDIR: every program that uses this home must find the same folder.
            folder = Path("/tmp") / f"pagewarden-{name}"  # noqa: S108  # checked below
        folders.make_private(folder, self.account)
        return folder

    def _rotate_log(self) -> int:
        folders.make_private(self.log.parent, self.account)
        size = self.log.lstat().st_size if self.log.exists() else 0
        if size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
            return 0
        return size

    def _failure(self, what: str, said: str) -> errors.LocalStackError:
        tail = "\n".join(said.strip().splitlines()[-_TAIL_LINES:])
        advice = next((hint for sign, hint in _ADVICE.items() if sign in said), None)
        # Looked at, not read in the log: on a full disk the log ends in the middle of a word.
        if shutil.disk_usage(self.home).free < _FREE_BYTES:
            advice = f"free some space on the disk of {self.home} and start again"
        return errors.LocalStackError(f"{what}; {advice}\n{tail}" if advice else f"{what}:\n{tail}")


def _locales(major: int) -> list[tuple[str, ...]]:
    """List locale options to try; all sort by code point and know upper case beyond ASCII.

    The last one works everywhere. Before version 17 it knows upper case in ASCII only.
    """
    if major >= 17:
        return [("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")]
    return [("--locale=C", "--lc-ctype=C.UTF-8"), ("--locale=C",)]


def _free_port(last: int) -> int:
    """Choose the port used last if it is free, so that programs still running reconnect."""
    for port in (last, 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise errors.LocalStackError("no port of 127.0.0.1 is free; is the loopback interface up?")
