"""Run the relay in Deno with the least permissions, and Deno's checks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import deno  # type: ignore[import-untyped]  # the wheel comes without types

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RELAY = Path(__file__).parent.parent.parent / "supabase" / "functions" / "relay"

_QUIET = {"NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1", "DENO_NO_PROMPT": "1"}
_LISTENING = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass(frozen=True, slots=True)
class Relay:
    """A running relay; `log` grows as it writes."""

    url: str
    pid: int
    log: bytearray


@contextlib.asynccontextmanager
async def run_relay(upstream: str | None, **settings: str) -> AsyncIterator[Relay]:
    """Run the relay in front of a server."""
    names = ["PAGEWARDEN_URL", "PAGEWARDEN_RELAY_SECONDS"]
    environment = settings | ({} if upstream is None else {"PAGEWARDEN_URL": upstream})
    async with _start(
        *("run", "--no-remote", "--no-npm", "--no-config", "--no-lock"),
        *("--allow-net=127.0.0.1", f"--allow-env={','.join(names)}", "index.ts"),
        environment=environment | {"DENO_SERVE_ADDRESS": "tcp:127.0.0.1:0"},
    ) as process:
        assert process.stdout is not None
        log = bytearray()
        while not (found := _LISTENING.search(log.decode())):
            line = await process.stdout.readline()
            assert line, log.decode()
            log += line
        reading = asyncio.create_task(_read(process.stdout, log))
        try:
            yield Relay(found[0], process.pid, log)
        finally:
            process.terminate()
            await reading


async def run(*arguments: str) -> tuple[int, str]:
    """Run a Deno command on the relay; return its exit code and output."""
    async with _start(*arguments, environment={}) as process:
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


@contextlib.asynccontextmanager
async def _start(
    *arguments: str, environment: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    with tempfile.TemporaryDirectory() as cache:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PAGEWARDEN_")}
        process = await asyncio.create_subprocess_exec(
            *(deno.find_deno_bin(), *arguments),
            cwd=RELAY,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=inherited | _QUIET | {"DENO_DIR": cache} | environment,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _read(stream: asyncio.StreamReader, log: bytearray) -> None:
    while chunk := await stream.read(65_536):
        log += chunk
