"""Run programs of Pagewarden as processes, and read their log lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support import polling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

TIMEOUT_SECONDS = 60.0


@dataclass(slots=True)
class Program:
    """A running program; `lines` are its log lines, which must be JSON."""

    process: asyncio.subprocess.Process
    lines: list[dict[str, Any]] = field(default_factory=list)

    async def line(self, event: str) -> dict[str, Any]:
        """Wait for a line with this event."""

        def is_logged() -> bool:
            assert self.process.returncode is None, self.lines
            return any(line["event"] == event for line in self.lines)

        await polling.wait_until(is_logged, seconds=TIMEOUT_SECONDS)
        return next(line for line in self.lines if line["event"] == event)

    async def read_lines(self) -> None:
        """Read lines until the program ends."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.append(json.loads(line))


@contextlib.asynccontextmanager
async def running(*command: str, **environment: str) -> AsyncIterator[Program]:
    """Run a program; stop it with SIGTERM at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        env=_without_colour(os.environ) | environment,
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    reading = asyncio.create_task(program.read_lines())
    try:
        yield program
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.wait()
            await reading
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _without_colour(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key != "FORCE_COLOR"}
