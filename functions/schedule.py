"""Call functions on their schedules, without pg_cron: python -m functions.schedule URL."""

from __future__ import annotations

import asyncio
import signal
import sys

from pagewarden import database, keys, observed, settings
from pagewarden.local import scheduler, stack
from pagewarden.telemetry import logs


def main(url: str) -> None:
    """Keep the schedules of edge_function_config, until told to stop."""
    logs.configure()
    chosen = settings.load()
    with observed.serve_metrics(chosen):
        asyncio.run(_keep(chosen, url))


async def _keep(chosen: settings.Settings, url: str) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with (
        stack.located(chosen) as found,
        await database.connect_direct(found.url) as connection,
        asyncio.TaskGroup() as group,
    ):
        timetable = scheduler.Scheduler(connection, url, keys.load(chosen).secret_key)
        group.create_task(timetable.run(stop))
        group.create_task(scheduler.watch(connection, stop))
        group.create_task(scheduler.sweep(connection, stop, seconds=chosen.sweep_seconds))


if __name__ == "__main__":
    main(sys.argv[1])
