"""Start a complete system for a benchmark: `pagewarden up` in a temporary folder, on free ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence


START_SECONDS = 180.0
STOP_SECONDS = 60.0
READY = "Pagewarden is up"
FIRST_SIGN_IN = re.compile(r"first administrator: (\S+), password\s+(\S+)")
"""Address and password in the output of `up`."""
COMMAND = (sys.executable, "-m", "pagewarden", "up")
PARTS: Mapping[str, tuple[str, ...]] = {
    "functions": ("pagewarden.functions",),
    "gpu": ("pagewarden.gpu_service",),
    "worker": ("pagewarden", "work"),
    "volumes": ("volumes", "work"),
}
"""The programs of a system, and how their command lines end."""


def find_part(command: Sequence[str]) -> str | None:
    """Return the part that a command line starts, None for other programs."""
    for name, last in PARTS.items():
        if tuple(command[-len(last) :]) == last:
            return name
    return None


@dataclass(frozen=True, slots=True)
class Installation:
    """A folder and addresses for a system, and the environment that makes programs use them."""

    home: Path
    url: str
    gpu_url: str
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class System:
    """A running system; `output` has the lines it has printed."""

    home: Path
    url: str
    process: asyncio.subprocess.Process
    output: list[str] = field(default_factory=list)

    @property
    def secret_key(self) -> str:
        """Read the secret key."""
        return (self.home / "secret_key").read_text("ascii").strip()

    def client(self) -> httpx.AsyncClient:
        """Open a client of its functions, authenticated as a service."""
        headers = {"apikey": self.secret_key}
        return httpx.AsyncClient(
            base_url=f"{self.url}/functions/v1", headers=headers, timeout=60, trust_env=False
        )

    def part(self, name: str) -> psutil.Process:
        """Find the process of a part; LookupError while it is restarted."""
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if find_part(child.cmdline()) == name:
                    return child
        raise LookupError(f"{name} is not running")

    def database(self) -> psutil.Process:
        """Find the process of the embedded Postgres."""
        (file,) = self.home.glob("**/postmaster.pid")
        return psutil.Process(int(file.read_text().split()[0]))


@contextlib.contextmanager
def prepare(**settings: str) -> Iterator[Installation]:
    """Create a temporary folder and find free ports for a system with these settings."""
    with create_folder() as folder:
        home = folder / "home"
        url, gpu_url = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        environment = os.environ | {
            "PAGEWARDEN_HOME": str(home),
            "PAGEWARDEN_LISTEN_PORT": url.rpartition(":")[2],
            "PAGEWARDEN_GPU_SERVICE_URL": gpu_url,
            "COLUMNS": "300",
            **{f"PAGEWARDEN_{name.upper()}": value for name, value in settings.items()},
        }
        yield Installation(home, url, gpu_url, environment)


@contextlib.asynccontextmanager
async def open_system(**settings: str) -> AsyncIterator[System]:
    """Start a system with these settings; stop and remove it at the end."""
    with prepare(**settings) as installation:
        async with open_installation(installation) as system:
            yield system


@contextlib.asynccontextmanager
async def open_installation(
    installation: Installation, command: Sequence[str] = COMMAND, *, folder: Path | None = None
) -> AsyncIterator[System]:
    """Start a system in the working directory `folder`, wait until it is up; stop it at the end."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=installation.environment,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    system = System(installation.home, installation.url, process)
    up = asyncio.Event()
    reading = asyncio.create_task(_read_output(system, up))
    try:
        await _wait_until_up(system, up, reading)
        yield system
    finally:
        await _stop(process)
        await reading


async def _read_output(system: System, up: asyncio.Event) -> None:
    assert system.process.stdout is not None  # noqa: S101  # it was created with a pipe
    while line := await system.process.stdout.readline():
        system.output.append(line.decode(errors="replace").rstrip())
        if READY in system.output[-1]:
            up.set()


async def _wait_until_up(system: System, up: asyncio.Event, reading: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(up.wait())
    await asyncio.wait(
        {waiting, reading}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    waiting.cancel()
    if not up.is_set():
        output = "\n".join(system.output[-30:])
        raise errors.LocalStackError(f"the system did not start; its output:\n{output}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@contextlib.contextmanager
def create_folder() -> Iterator[Path]:
    """Create a temporary folder that the account of the server can enter, too."""
    folder = Path(tempfile.mkdtemp(prefix="pagewarden-system-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Find ports that are free at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
