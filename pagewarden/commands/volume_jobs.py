"""What commands about jobs of volumes have in common: asking for them, waiting for their end."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from pagewarden import bars, errors
from pagewarden.commands import ending
from pagewarden.local import stack
from pagewarden.volumes import jobs, showing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden import settings

T = TypeVar("T")

LOOK_SECONDS = 2.0

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Job = Annotated[str, typer.Argument(metavar="JOB", help="Its key, or its number.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait", help="Wait until the job has ended; exit code 1 unless it is completed."
    ),
]


def ask(chosen: settings.Settings, question: Callable[[jobs.Jobs], Awaitable[T]]) -> T:
    """Connect, and ask something about jobs."""

    async def run() -> T:
        async with stack.connected(chosen) as connection:
            return await question(jobs.Jobs(connection))

    return asyncio.run(run())


def code(seen: jobs.Board) -> int:
    """Tell the exit code of whoever waited for a job."""
    return 0 if seen.status == "completed" else ending.SOME_FAILED


def wait(chosen: settings.Settings, job: str) -> jobs.Board:
    """Wait for the end of a job, with a bar; Ctrl-C ends the command, and the job goes on."""
    ended: list[jobs.Board] = []

    async def run() -> None:
        async with stack.connected(chosen) as connection:
            found = jobs.Jobs(connection)
            ended.append(await _until_ended(found, await found.find(job)))

    try:
        asyncio.run(ending.until_terminated(run()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        bars.say(err, f"interrupted; the job goes on: pagewarden volumes status {job} --wait")
        sys.exit(ending.INTERRUPTED)
    return ended[0]


async def _until_ended(found: jobs.Jobs, job_id: int) -> jobs.Board:
    said: list[str] = []
    with bars.one_bar(err) as bar:
        task = bar.add_task("volumes", unit="volumes")
        while True:
            try:
                seen = await found.board(job_id)
            except errors.DatabaseAway as exc:
                notices = [str(exc)]
            else:
                bar.update(task, completed=seen.done, total=seen.volumes)
                if seen.status != "running":
                    return seen
                notices = [text.plain for text in showing.notices(seen, dt.datetime.now(dt.UTC))]
            for notice in notices:
                if notice not in said:
                    bars.say(bar.console, notice)
            said = notices
            await asyncio.sleep(LOOK_SECONDS)
