"""python -m benchmarks queue: our queue against pgmq, procrastinate and pgqueuer."""

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
        typer.Option(help="URL of a superuser on the server. Default: the embedded server."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=100, help="Maximum number of jobs per round.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of worker processes.")] = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Batch size; repeat the option for several.")
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Number of rounds, whose median is used.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a smoke test of a few seconds.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Compare our queue with pgmq, procrastinate and pgqueuer on the same server."""
    contestants.require_packages()
    default = contest.QUICK if quick else contest.Plan()
    plan = dataclasses.replace(
        default,
        jobs=jobs or default.jobs,
        workers=workers or default.workers,
        batches=batch or default.batches,
        repeat=repeat or default.repeat,
    )
    console = consoles.Console()
    claims = contest.QUICK_CLAIMS if quick else contest.ClaimPlan()
    result = asyncio.run(_run(url, plan, claims, console))
    _print(result, console)
    if json is not None:
        json.write_text(report.to_json(result), encoding="utf-8")
    if result.problems:
        raise typer.Exit(1)


async def measure(
    url: str, plan: contest.Plan, claims: contest.ClaimPlan, announce: Callable[[str], None]
) -> report.Report:
    """Run the whole benchmark on the server of this URL, which must be a superuser's."""
    description = await databases.describe_server(url)
    async with contest.open_templates(url, contestants.NAMES, announce):
        samples = await contest.run_rounds(url, plan, contestants.NAMES, announce)
        claim_times = await contest.measure_claims(url, claims, announce)
    return report.Report(description, plan, samples, claim_times)


async def _run(
    url: str | None, plan: contest.Plan, claims: contest.ClaimPlan, console: consoles.Console
) -> report.Report:
    rounds = len(list(plan.rounds(contestants.NAMES)))
    steps = len(contestants.NAMES) + rounds + len(claims.backlogs) + 1
    async with _open_server(url) as server_url:
        with progress.Progress(console=console, transient=True) as bar:
            task = bar.add_task("", total=steps)

            def announce(step: str) -> None:
                bar.update(task, advance=1, description=step)

            return await measure(server_url, plan, claims, announce)


def _print(result: report.Report, console: consoles.Console) -> None:
    console.print(report.make_header(result), highlight=False)
    console.print(report.make_contest_table(result))
    console.print(report.make_claims_table(result))
    console.print(report.make_verdict(result))


@contextlib.asynccontextmanager
async def _open_server(url: str | None) -> AsyncIterator[str]:
    """Yield the URL of the option or of the settings; without either, start the embedded server."""
    current = settings.load()
    if url is not None:
        yield url
    elif current.database_url is not None:
        yield current.database_url.get_secret_value()
    else:
        async with server.open_server(current.home) as local:
            yield local.url(cluster.SUPERUSER)
