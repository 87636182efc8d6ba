"""Volumes on this machine: an orchestrator all the time, and workers while there are jobs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import concurrency, waking
from pagewarden.local import supervisor
from pagewarden.volumes import orchestrator, queues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pagewarden.database import Database
    from pagewarden.settings import Settings

# Whoever orders one job after the other need not wait for a worker to start each time.
LINGER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Volumes:
    """What does volumes here; environment is that of its workers, besides ours."""

    database: Database
    url: str
    settings: Settings
    environment: Mapping[str, str]

    async def run(self, stop: asyncio.Event, say: Callable[[str, str], None]) -> None:
        """Orchestrate, and have workers run while there is anything for them to do."""
        publisher = queues.open_publisher(self.settings)
        async with waking.listening(self.url, waking.VOLUMES) as hints:
            looking = orchestrator.Orchestrator(self.database, "up", publisher, hints)
            async with asyncio.TaskGroup() as group:
                group.create_task(looking.run(stop))
                for number in range(1, self.settings.volume_workers + 1):
                    part = OnCall(self._worker(number), looking.busy, say)
                    group.create_task(part.run(stop))

    def _worker(self, number: int) -> supervisor.Part:
        program = supervisor.program("pagewarden.cli", "volumes", "work")
        return supervisor.Part(f"volumes-{number}", program, self.environment)


@dataclass(frozen=True, slots=True)
class OnCall:
    """Keeps a part running while it is needed, and some time longer; else it costs nothing."""

    part: supervisor.Part
    needed: concurrency.Toggle
    say: Callable[[str, str], None]
    linger_seconds: float = LINGER_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Start and end it, again and again, until stop is set."""
        while not stop.is_set():
            await concurrency.wait(self.needed.on, stop, seconds=None)
            if not stop.is_set():
                await self._live(stop)

    async def _live(self, stop: asyncio.Event) -> None:
        enough = asyncio.Event()
        running = asyncio.create_task(supervisor.Supervisor(self.part, self.say).run(enough))
        try:
            while self.needed.on.is_set() and not stop.is_set():
                await concurrency.wait(self.needed.off, stop, seconds=None)
                await concurrency.wait(self.needed.on, stop, seconds=self.linger_seconds)
        finally:
            enough.set()
            await running
