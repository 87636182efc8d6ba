"""pagewarden volumes list, and history: the volumes of a job, and every turn at one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pagewarden import settings
from pagewarden.commands import volume_jobs
from pagewarden.volumes import jobs, showing, stages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import rows

_STAGES = ("pending", *stages.STAGES, "done")
_STATUSES = ("pending", "running", "done", "failed")


def list_volumes(
    job: volume_jobs.Job,
    *,
    stage: Annotated[
        str | None, typer.Option(help=f"Only those at it: one of {', '.join(_STAGES)}.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only those that are {', '.join(_STATUSES)}.")
    ] = None,
    json: volume_jobs.Json = False,
) -> None:
    """List volumes of a job, failed ones first: stage, status, attempts, pages, what came out."""
    _require("stage", stage, _STAGES)
    _require("status", status, _STATUSES)

    async def tasks(found: jobs.Jobs) -> list[rows.ListedVolumeTask]:
        return await found.tasks(await found.find(job), stage=stage, status=status)

    listed = volume_jobs.ask(settings.load(), tasks)
    if json:
        volume_jobs.out.print_json(data=listed)
    else:
        volume_jobs.out.print(showing.volumes(listed) if listed else "there are no such volumes")


def history(
    job: volume_jobs.Job,
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="As in W22084-I0886.")],
    *,
    json: volume_jobs.Json = False,
) -> None:
    """Show every turn of a worker at a volume, newest first: how long, how it ended, why."""
    name = jobs.Name.parse(volume)

    async def turns(found: jobs.Jobs) -> list[rows.VolumeRuns]:
        return await found.history(await found.find(job), name)

    runs = volume_jobs.ask(settings.load(), turns)
    if json:
        volume_jobs.out.print_json(data=runs)
    else:
        volume_jobs.out.print(showing.turns(runs) if runs else "no worker has had it yet")


def _require(what: str, given: str | None, known: Sequence[str]) -> None:
    if given is not None and given not in known:
        raise typer.BadParameter(f"there is no {what} {given!r}; one of {', '.join(known)}")
