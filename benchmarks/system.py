"""A whole system of one's own: pagewarden up in a new folder and on free ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
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
COMMAND = (sys.executable, "-m", "pagewarden.cli", "up")
PARTS: Mapping[str, tuple[str, ...]] = {
    "functions": ("functions",),
    "gpu": ("gpu_service",),
    "worker": ("pagewarden.cli", "work"),
    "volumes": ("volumes", "work"),
}
"""The parts of a system, and the last words of their command lines."""


def part_of(words: Sequence[str]) -> str | None:
    """Tell which part a command line starts, if any."""
    for name, last in PARTS.items():
        if tuple(words[-len(last) :]) == last:
            return name
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a system can be started: its home, its address, and the environment that says so."""

    home: Path
    url: str
    gpu_url: str
    environment: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class System:
    """A running system; said has all lines that it printed."""

    home: Path
    url: str
    process: asyncio.subprocess.Process
    said: list[str] = field(default_factory=list)

    @property
    def secret_key(self) -> str:
        """Have the key that opens everything."""
        return (self.home / "secret_key").read_text("ascii").strip()

    def client(self) -> httpx.AsyncClient:
        """Talk to its functions as a service."""
        headers = {"apikey": self.secret_key}
        return httpx.AsyncClient(
            base_url=f"{self.url}/functions/v1", headers=headers, timeout=60, trust_env=False
        )

    def part(self, name: str) -> psutil.Process:
        """Find the process of a part; LookupError while it is being started again."""
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if part_of(child.cmdline()) == name:
                    return child
        raise LookupError(f"{name} does not run")

    def database(self) -> psutil.Process:
        """Find the process of the embedded Postgres."""
        (file,) = self.home.glob("**/postmaster.pid")
        return psutil.Process(int(file.read_text().split()[0]))


@contextlib.contextmanager
def prepared(**settings: str) -> Iterator[Place]:
    """Have a new folder and free ports for a system with these settings."""
    with new_folder() as folder:
        home = folder / "home"
        url, gpu_url = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        environment = os.environ | {
            "PAGEWARDEN_HOME": str(home),
            "PAGEWARDEN_LISTEN_PORT": url.rpartition(":")[2],
            "PAGEWARDEN_GPU_SERVICE_URL": gpu_url,
            "COLUMNS": "300",
            **{f"PAGEWARDEN_{name.upper()}": value for name, value in settings.items()},
        }
        yield Place(home, url, gpu_url, environment)


@contextlib.asynccontextmanager
async def running(**settings: str) -> AsyncIterator[System]:
    """Start a system with these settings, and stop it and remove it at the end."""
    with prepared(**settings) as place:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            env=place.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        system = System(place.home, place.url, process)
        up = asyncio.Event()
        listening = asyncio.create_task(_listen(system, up))
        try:
            await _until_up(system, up, listening)
            yield system
        finally:
            await _stop(process)
            await listening


async def _listen(system: System, up: asyncio.Event) -> None:
    assert system.process.stdout is not None  # noqa: S101  # we asked for the pipe
    while line := await system.process.stdout.readline():
        system.said.append(line.decode(errors="replace").rstrip())
        if READY in system.said[-1]:
            up.set()


async def _until_up(system: System, up: asyncio.Event, listening: asyncio.Task[None]) -> None:
    waiting = asyncio.create_task(up.wait())
    await asyncio.wait(
        {waiting, listening}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    waiting.cancel()
    if not up.is_set():
        said = "\n".join(system.said[-30:])
        raise errors.LocalStackError(f"the system did not start; it said:\n{said}")


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
def new_folder() -> Iterator[Path]:
    """Have a folder in which root's server, of another account, may have its own."""
    folder = Path(tempfile.mkdtemp(prefix="pagewarden-system-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Choose ports that nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
