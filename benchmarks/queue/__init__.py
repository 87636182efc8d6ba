"""python -m benchmarks queue: pgmq, procrastinate, pgqueuer and ours, side by side."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich import console as consoles
from rich import progress

from benchmarks.queue import contest, contestants, databases, report
from pagewarden import settings
from pagewarden.local import cluster, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


__all__ = ["command", "measure"]


def command(  # noqa: PLR0913  # each is an option of the command line
    *,
    url: Annotated[
        str | None,
        typer.Option(help="Server to measure, as a superuser; default is the embedded one."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=100, help="Most jobs in one round.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes.")] = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Batch size; can be given several times.")
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Rounds of which the median counts.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only show that everything works; a few seconds.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the raw figures to this file.")
    ] = None,
) -> None:
    """Measure our queue beside pgmq, procrastinate and pgqueuer on the same server."""
    contestants.require()
    usual = contest.QUICK if quick else contest.Plan()
    plan = dataclasses.replace(
        usual,
        jobs=jobs or usual.jobs,
        workers=workers or usual.workers,
        batches=batch or usual.batches,
        repeat=repeat or usual.repeat,
    )
    console = consoles.Console()
    found = asyncio.run(
        _run(url, plan, contest.QUICK_CLAIMS if quick else contest.ClaimPlan(), console)
    )
    _show(found, console)
    if json is not None:
        json.write_text(report.to_json(found), encoding="utf-8")
    if found.problems:
        raise typer.Exit(1)


async def measure(
    url: str, plan: contest.Plan, claims: contest.ClaimPlan, announce: Callable[[str], None]
) -> report.Report:
    """Run the whole benchmark on the server of this URL (a superuser's)."""
    described = await databases.describe(url)
    async with contest.prepared(url, contestants.NAMES, announce):
        samples = await contest.hold(url, plan, contestants.NAMES, announce)
        claimed = await contest.measure_claims(url, claims, announce)
    return report.Report(described, plan, samples, claimed)


async def _run(
    url: str | None, plan: contest.Plan, claims: contest.ClaimPlan, console: consoles.Console
) -> report.Report:
    rounds = len(list(plan.rounds(contestants.NAMES)))
    steps = len(contestants.NAMES) + rounds + len(claims.backlogs) + 1
    async with _server(url) as address:
        with progress.Progress(console=console, transient=True) as bar:
            task = bar.add_task("", total=steps)

            def announce(words: str) -> None:
                bar.update(task, advance=1, description=words)

            return await measure(address, plan, claims, announce)


def _show(found: report.Report, console: consoles.Console) -> None:
    console.print(report.header(found), highlight=False)
    console.print(report.contest_table(found))
    console.print(report.claims_table(found))
    console.print(report.verdict(found))


@contextlib.asynccontextmanager
async def _server(url: str | None) -> AsyncIterator[str]:
    """Use the server that was named or set, or else the embedded one."""
    known = settings.load()
    if url is not None:
        yield url
    elif known.database_url is not None:
        yield known.database_url.get_secret_value()
    else:
        async with server.running(known.home) as local:
            yield local.url(cluster.SUPERUSER)
