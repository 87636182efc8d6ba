"""Volumes on this machine: an orchestrator all the time, and workers while there are jobs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import waking
from pagewarden.local import supervisor
from pagewarden.volumes import orchestrator, queues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pagewarden.database import Database
    from pagewarden.settings import Settings

# Whoever orders one job after the other need not wait for a worker to start each time.
LINGER_SECONDS = 60.0


async def run(
    database: Database,
    url: str,
    settings: Settings,
    stop: asyncio.Event,
    say: Callable[[str, str], None],
    environment: Mapping[str, str],
) -> None:
    """Orchestrate, and have workers run while there is anything for them to do."""
    async with waking.listening(url, waking.VOLUMES) as hints:
        looking = orchestrator.Orchestrator(database, "up", queues.open_publisher(settings), hints)
        parts = [
            supervisor.Part(
                f"volumes-{number}",
                supervisor.program("pagewarden.cli", "volumes", "work"),
                environment,
            )
            for number in range(1, settings.volume_workers + 1)
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(looking.run(stop))
            for part in parts:
                group.create_task(OnCall(part, looking.busy, say).run(stop))


@dataclass(frozen=True, slots=True)
class OnCall:
    """Keeps a part running while it is needed, and some time longer; else it costs nothing."""

    part: supervisor.Part
    needed: waking.Switch
    say: Callable[[str, str], None]
    linger_seconds: float = LINGER_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Start and end it, again and again, until stop is set."""
        while not stop.is_set():
            await waking.wait(self.needed.on, stop, seconds=None)
            if not stop.is_set():
                await self._live(stop)

    async def _live(self, stop: asyncio.Event) -> None:
        enough = asyncio.Event()
        running = asyncio.create_task(supervisor.Supervisor(self.part, self.say).run(enough))
        try:
            while self.needed.on.is_set() and not stop.is_set():
                await waking.wait(self.needed.off, stop, seconds=None)
                await waking.wait(self.needed.on, stop, seconds=self.linger_seconds)
        finally:
            enough.set()
            await running
