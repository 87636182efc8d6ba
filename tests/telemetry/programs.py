"""Our programs as processes of their own, and what they write."""

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

PATIENCE = 60.0


@dataclass(slots=True)
class Program:
    """A program that runs; said are its lines, each of which must be JSON."""

    process: asyncio.subprocess.Process
    said: list[dict[str, Any]] = field(default_factory=list)

    async def line(self, event: str) -> dict[str, Any]:
        """Wait until it has said something of this event."""

        def is_there() -> bool:
            assert self.process.returncode is None, self.said
            return any(line["event"] == event for line in self.said)

        await polling.until(is_there, seconds=PATIENCE)
        return next(line for line in self.said if line["event"] == event)

    async def listen(self) -> None:
        """Take its lines in."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.said.append(json.loads(line))


@contextlib.asynccontextmanager
async def started(*command: str, **environment: str) -> AsyncIterator[Program]:
    """Run one of our programs; at the end, have it stop in order."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        env=_without_colour(os.environ) | environment,
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    listening = asyncio.create_task(program.listen())
    try:
        yield program
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await process.wait()
            await listening
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _without_colour(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key != "FORCE_COLOR"}
