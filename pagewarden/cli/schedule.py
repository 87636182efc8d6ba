"""`pagewarden schedule`: call functions on schedule, where pg_cron is not available."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from pagewarden import database
from pagewarden.auth import keys
from pagewarden.cli import program
from pagewarden.documents import worker
from pagewarden.local import scheduler, stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings


def command(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="URL of the functions, such as http://localhost:54321."),
    ],
    *,
    serverless: Annotated[
        bool,
        typer.Option(
            "--serverless",
            help="Also call the functions that read documents, for systems without workers.",
        ),
    ] = False,
) -> None:
    """Call functions on schedule until Ctrl-C, for databases without pg_cron and pg_net."""
    settings = load_settings()
    with program.serve_metrics(settings):
        asyncio.run(_run(settings, url, is_serverless=serverless))


async def _run(settings: Settings, url: str, *, is_serverless: bool) -> None:
    stop = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with (
        stack.open_existing(settings) as found,
        await database.connect_direct(found.url) as connection,
        contextlib.AsyncExitStack() as resources,
        asyncio.TaskGroup() as group,
    ):
        timetable = scheduler.Scheduler(
            connection, url, keys.load_keys(settings).secret_key, is_serverless=is_serverless
        )
        await resources.enter_async_context(timetable.listen(found.url))
        group.create_task(timetable.run(stop))
        group.create_task(scheduler.evaluate_alerts_periodically(connection, stop))
        group.create_task(
            worker.sweep_periodically(connection, stop, seconds=settings.sweep_seconds)
        )
