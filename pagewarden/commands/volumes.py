"""pagewarden volumes: books of page images, through four stages."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import json as json_module
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import structlog
import typer
from rich.live import Live

from pagewarden import bars, errors, settings
from pagewarden.commands import ending, volume_jobs, volume_lists, volume_programs
from pagewarden.local import stack
from pagewarden.volumes import (
    artifacts,
    bringing,
    layout,
    places,
    showing,
    stages,
)
from pagewarden.volumes import config as configs
from pagewarden.volumes import jobs as jobs_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from pagewarden.database import rows

log = structlog.get_logger(__name__)

WATCH_SECONDS = 2.0

app = typer.Typer(
    help="Read books of page images, stage by stage: order, watch, re-run, export, work.",
    no_args_is_help=True,
)
out = volume_jobs.out
err = volume_jobs.err

Volumes = Annotated[
    list[str] | None,
    typer.Argument(metavar="[VOLUME]...", help="Only these, as in W22084-I0886. Default: all."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A key of the config, as in engine=tesseract."),
]


@app.command()
def create(  # noqa: PLR0913  # each is an option of the command
    volumes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VOLUME]...",
            help="Volumes of the input bucket, as in W22084-I0886, or folders of images with such "
            "names, which are copied there first.",
        ),
    ] = None,
    *,
    list_: Annotated[
        Path | None,
        typer.Option("--list", metavar="FILE", help="More of them, one in a line.", exists=True),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Names the job and its folder of artifacts.")
    ] = None,
    set_: Set = None,
    max_attempts: Annotated[
        int, typer.Option(min=1, max=100, help="How often a volume may fail, in all stages.")
    ] = 3,
    stage_seconds: Annotated[
        int, typer.Option(min=1, max=43_200, help="How long a stage of a volume may take.")
    ] = 21_600,
    input_bucket: volume_programs.InputBucket = None,
    wait: volume_jobs.Wait = False,
    json: volume_jobs.Json = False,
) -> None:
    """Order volumes to be read, all in the same way."""
    named = [*(volumes or ()), *_lines(list_)]
    if not named:
        raise typer.BadParameter("name volumes, or a file with --list")
    config = read_config(set_)
    configs.Config.parse(config)  # before many images are copied for nothing
    chosen = settings.load()

    async def order(found: jobs_module.Jobs) -> jobs_module.Made:
        async with artifacts.open_bucket(places.input_of(chosen, input_bucket), chosen) as bucket:
            names = [await _brought(text, bucket) for text in named]
        return await found.create(
            names,
            job_key=key,
            config=config,
            max_attempts=max_attempts,
            stage_seconds=stage_seconds,
        )

    made = volume_jobs.ask(chosen, order)
    if json and not wait:
        out.print_json(data=dataclasses.asdict(made))
    if not json:
        out.print(f"job {made.job_id}, {made.job_key}: {made.volumes:,} volumes")
        out.print(f"  [bold]pagewarden volumes status {made.job_key} --watch[/]")
    if wait:
        _end(chosen, made.job_key, json=json)


def _end(chosen: settings.Settings, job: str, *, json: bool) -> NoReturn:
    """Wait for the end of a job, show it, and end with what became of it."""
    seen = volume_jobs.wait(chosen, job)
    failed = volume_jobs.ask(chosen, lambda found: found.tasks(seen.job_id, status="failed"))
    _print(seen, failed, json=json)
    sys.exit(volume_jobs.code(seen))


async def _brought(text: str, bucket: artifacts.Bucket) -> jobs_module.Name:
    """Name a volume; a folder is copied into the bucket."""
    folder = Path(text)
    if not await asyncio.to_thread(folder.is_dir):
        return jobs_module.Name.parse(text)
    name = jobs_module.Name.parse((await asyncio.to_thread(folder.resolve)).name)
    with bars.one_bar(err) as bar:
        task = bar.add_task(str(name), unit="images")
        pages = await bringing.bring(
            folder, bucket, name, lambda done, total: bar.update(task, completed=done, total=total)
        )
    err.print(f"{name}: {pages:,} images")
    return name


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_config(given: Sequence[str] | None) -> dict[str, Any]:
    """Read KEY=VALUE; a value that is JSON is what it is, everything else text, or texts."""
    config: dict[str, Any] = {}
    for pair in given or ():
        key, sign, value = pair.partition("=")
        if not sign:
            raise typer.BadParameter(f"{pair!r} sets nothing; write KEY=VALUE")
        try:
            config[key] = json_module.loads(value)
        except ValueError:
            config[key] = value.split(",") if key in configs.LISTS else value
    return config


@app.command()
def status(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Its key or number. Default: all jobs.")
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again and again, until it has ended.")
    ] = False,
    wait: volume_jobs.Wait = False,
    json: volume_jobs.Json = False,
) -> None:
    """Show jobs, or how far one is: stage by stage, what is in hand, what failed."""
    chosen = settings.load()
    if job is None and wait:
        raise typer.BadParameter("name the job to --wait for")
    if job is None:
        listed = volume_jobs.ask(chosen, lambda found: found.listed())
        if json:
            out.print_json(data=listed)
        else:
            out.print(showing.jobs(listed) if listed else "no volumes were ordered yet")
        return
    if wait:
        _end(chosen, job, json=json)
    if watch and not json:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_watch(chosen, job))
        return
    _print(*volume_jobs.ask(chosen, lambda found: _look(found, job)), json=json)


def _print(seen: jobs_module.Board, failed: list[rows.ListedVolumeTask], *, json: bool) -> None:
    if json:
        out.print_json(data={"job": dataclasses.asdict(seen), "failed": failed})
        return
    for part in _shown(seen, failed):
        out.print(part)


async def _look(
    found: jobs_module.Jobs, job: str
) -> tuple[jobs_module.Board, list[rows.ListedVolumeTask]]:
    job_id = await found.find(job)
    return await found.board(job_id), await found.tasks(job_id, status="failed")


def _shown(seen: jobs_module.Board, failed: list[rows.ListedVolumeTask]) -> list[RenderableType]:
    shown = [showing.board(seen, dt.datetime.now(dt.UTC))]
    if failed:
        shown += [showing.failures(failed), f"pagewarden volumes retry {seen.job_key}"]
    return shown


async def _watch(chosen: settings.Settings, job: str) -> None:
    async with stack.connected(chosen) as connection:
        found = jobs_module.Jobs(connection)
        job_id = await found.find(job)
        with Live(console=out, auto_refresh=False) as live:
            while True:
                seen = await found.board(job_id)
                live.update(showing.board(seen, dt.datetime.now(dt.UTC)), refresh=True)
                if seen.status != "running":
                    break
                await asyncio.sleep(WATCH_SECONDS)
        if seen.failed:
            out.print(showing.failures(await found.tasks(job_id, status="failed")))


@app.command()
def retry(job: volume_jobs.Job, volumes: Volumes = None) -> None:
    """Let volumes that failed go on with the stage they failed in, with fresh attempts.

    A job that was cancelled goes on, too.
    """
    _rerun(job, None, volumes, only_failed=True, config={})


@app.command()
def rerun(
    job: volume_jobs.Job,
    stage: Annotated[
        str, typer.Argument(metavar="STAGE", help=f"One of {', '.join(stages.STAGES)}.")
    ],
    volumes: Volumes = None,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only volumes that failed.")] = False,
    set_: Set = None,
) -> None:
    """Do a stage again, and those after it; nothing before it is done again."""
    if stage not in stages.STAGES:
        raise typer.BadParameter(f"there is no stage {stage!r}; one of {', '.join(stages.STAGES)}")
    _rerun(job, stage, volumes, only_failed=failed, config=read_config(set_))


def _rerun(
    job: str,
    stage: str | None,
    volumes: Sequence[str] | None,
    *,
    only_failed: bool,
    config: dict[str, Any],
) -> None:
    names = [jobs_module.Name.parse(text) for text in volumes or ()]

    async def act(found: jobs_module.Jobs) -> tuple[int, int]:
        job_id = await found.find(job)
        return await found.rerun(
            job_id, stage, volumes=names, only_failed=only_failed, config=config
        )

    count, skipped = volume_jobs.ask(settings.load(), act)
    out.print(f"{count:,} volumes: {stage or 'the stage that failed'} once more")
    if skipped:
        out.print(f"{skipped:,} have not come to {stage} yet, and are left alone")


@app.command()
def cancel(
    job: volume_jobs.Job,
    *,
    reason: Annotated[str | None, typer.Option(help="Why, for the log.")] = None,
) -> None:
    """End a job now; what is done of it stays, and retry goes on with the rest."""

    async def act(found: jobs_module.Jobs) -> int:
        return await found.cancel(await found.find(job), reason)

    out.print(f"cancelled; {volume_jobs.ask(settings.load(), act):,} volumes were under way")


@app.command()
def export(
    job: volume_jobs.Job,
    volumes: Volumes = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to put them.")
    ] = Path(),
    images: Annotated[
        bool, typer.Option("--images", help="With images of pages and lines, too.")
    ] = False,
    output_bucket: volume_programs.OutputBucket = None,
) -> None:
    """Copy what was made of volumes here: Parquet files, and the exports that the job made."""
    chosen = settings.load()
    names = [jobs_module.Name.parse(text) for text in volumes or ()]

    async def act(found: jobs_module.Jobs) -> int:
        job_id = await found.find(job)
        key = (await found.board(job_id)).job_key
        config = await found.config(job_id)
        rows = await found.tasks(job_id)
        known = [jobs_module.Name(row["bdrc_w_id"], row["bdrc_i_id"]) for row in rows]
        if missing := [str(name) for name in names if name not in known]:
            raise errors.InvalidCall(f"the job has no volume {', '.join(missing)}")
        async with artifacts.open_bucket(places.output_of(chosen, output_bucket), chosen) as bucket:
            return sum(
                [
                    await bringing.export(
                        bucket,
                        layout.Volume(key, name.w_id, name.i_id),
                        config,
                        output,
                        pictures=images,
                    )
                    for name in names or known
                ]
            )

    count = volume_jobs.ask(chosen, act)
    out.print(f"{count:,} files in {output}")
    if not count:
        sys.exit(ending.SOME_FAILED)


app.command("list")(volume_lists.list_volumes)
app.command()(volume_lists.history)
app.command("work")(volume_programs.work)
app.command()(volume_programs.orchestrate)
