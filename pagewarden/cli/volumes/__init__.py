"""`pagewarden volumes`: create, monitor, rerun and export volume jobs."""

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

from pagewarden import errors
from pagewarden.cli import program, progress
from pagewarden.cli.volumes import status as volumes_status
from pagewarden.cli.volumes import work
from pagewarden.local import stack
from pagewarden.settings import load as load_settings
from pagewarden.volumes import artifact_keys, artifacts, stages, transfer
from pagewarden.volumes import config as configs
from pagewarden.volumes import jobs as jobs_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database.rows import ListedVolumeTask
    from pagewarden.settings import Settings

log = structlog.get_logger(__name__)

WATCH_SECONDS = 2.0

app = typer.Typer(
    help="Process volumes (books of page images): create, monitor, rerun and export jobs.",
    no_args_is_help=True,
)
out = volumes_status.out
err = volumes_status.err

Volumes = Annotated[
    list[str] | None,
    typer.Argument(metavar="[VOLUME]...", help="Volumes, such as W22084-I0886. Default: all."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Config value, such as engine=tesseract. May be repeated.",
    ),
]


@app.command()
def create(  # noqa: PLR0913  # each is an option of the command
    volumes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VOLUME]...",
            help="Volumes in the input bucket, such as W22084-I0886, or image folders with "
            "such names, which are uploaded to the bucket first.",
        ),
    ] = None,
    *,
    list_: Annotated[
        Path | None,
        typer.Option(
            "--list", metavar="FILE", help="File with volumes, one per line.", exists=True
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Key of the job, also used as the name of its artifact folder."),
    ] = None,
    set_: Set = None,
    max_attempts: Annotated[
        int,
        typer.Option(min=1, max=100, help="Maximum failed attempts per volume, across all stages."),
    ] = 3,
    stage_seconds: Annotated[
        int, typer.Option(min=1, max=43_200, help="Time limit per volume and stage, in seconds.")
    ] = 21_600,
    input_bucket: work.InputBucket = None,
    wait: volumes_status.Wait = False,
    json: volumes_status.Json = False,
) -> None:
    """Create a job that processes volumes with one config."""
    names_or_folders = [*(volumes or ()), *_read_lines(list_)]
    if not names_or_folders:
        raise typer.BadParameter("specify volumes, or a file with --list")
    config = parse_config(set_)
    configs.VolumeConfig.parse(config)  # fail before images are uploaded
    settings = load_settings()

    async def create_job(jobs: jobs_module.JobRepository) -> jobs_module.CreatedJob:
        async with artifacts.open_bucket(
            artifacts.get_input_address(settings, input_bucket), settings
        ) as bucket:
            names = [await _resolve_volume(text, bucket) for text in names_or_folders]
        return await jobs.create(
            names,
            job_key=key,
            config=config,
            max_attempts=max_attempts,
            stage_seconds=stage_seconds,
        )

    job = volumes_status.run_with_jobs(settings, create_job)
    if json and not wait:
        out.print_json(data=dataclasses.asdict(job))
    if not json:
        out.print(
            f"job {job.job_id}, {job.job_key}: {progress.format_count(job.volumes, 'volume')}"
        )
        out.print(f"  [bold]pagewarden volumes status {job.job_key} --watch[/]")
    if wait:
        _wait_and_exit(settings, job.job_key, json=json)


def _wait_and_exit(settings: Settings, job: str, *, json: bool) -> NoReturn:
    """Wait for the end of a job, print it, and exit with its result."""
    board = volumes_status.wait_for_job(settings, job)
    failed = volumes_status.run_with_jobs(
        settings, lambda jobs: jobs.list_tasks(board.job_id, status="failed")
    )
    _print_job(board, failed, json=json)
    sys.exit(0 if board.status == "completed" else program.SOME_FAILED)


async def _resolve_volume(text: str, bucket: artifacts.Bucket) -> jobs_module.VolumeName:
    """Parse the name of a volume; upload it to the bucket if it is a folder."""
    folder = Path(text)
    if not await asyncio.to_thread(folder.is_dir):
        return jobs_module.VolumeName.parse(text)
    name = jobs_module.VolumeName.parse((await asyncio.to_thread(folder.resolve)).name)
    with progress.make_progress_bar(err) as bar:
        task = bar.add_task(str(name), unit="images")
        pages = await transfer.upload_images(
            folder, bucket, name, lambda done, total: bar.update(task, completed=done, total=total)
        )
    err.print(f"{name}: {pages:,} images")
    return name


def _read_lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def parse_config(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Parse KEY=VALUE pairs; a value is JSON, otherwise text or a comma-separated list."""
    config: dict[str, Any] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"expected KEY=VALUE, got {pair!r}")
        try:
            config[key] = json_module.loads(value)
        except ValueError:
            config[key] = value.split(",") if key in configs.LIST_KEYS else value
    return config


@app.command()
def status(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Job key or number. Default: all jobs.")
    ] = None,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh until the job ends.")
    ] = False,
    wait: volumes_status.Wait = False,
    json: volumes_status.Json = False,
) -> None:
    """List jobs, or show the stages, active volumes and failures of one job."""
    settings = load_settings()
    if job is None and wait:
        raise typer.BadParameter("--wait requires a job")
    if job is None:
        listed = volumes_status.run_with_jobs(settings, lambda jobs: jobs.list_jobs())
        if json:
            out.print_json(data=listed)
        else:
            out.print(
                volumes_status.make_job_table(listed) if listed else "there are no volume jobs"
            )
        return
    if wait:
        _wait_and_exit(settings, job, json=json)
    if watch and not json:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_watch(settings, job))
        return
    _print_job(
        *volumes_status.run_with_jobs(settings, lambda jobs: _fetch_job(jobs, job)), json=json
    )


def _print_job(board: jobs_module.JobBoard, failed: list[ListedVolumeTask], *, json: bool) -> None:
    if json:
        out.print_json(data={"job": dataclasses.asdict(board), "failed": failed})
        return
    out.print(volumes_status.render_board(board, dt.datetime.now(dt.UTC)))
    if failed:
        out.print(volumes_status.make_failure_table(failed))
        out.print(f"pagewarden volumes retry {board.job_key}")


async def _fetch_job(
    jobs: jobs_module.JobRepository, job: str
) -> tuple[jobs_module.JobBoard, list[ListedVolumeTask]]:
    job_id = await jobs.find(job)
    return await jobs.get_board(job_id), await jobs.list_tasks(job_id, status="failed")


async def _watch(settings: Settings, job: str) -> None:
    async with stack.open_database(settings) as connection:
        jobs = jobs_module.JobRepository(connection)
        job_id = await jobs.find(job)
        with Live(console=out, auto_refresh=False) as live:
            while True:
                board = await jobs.get_board(job_id)
                live.update(
                    volumes_status.render_board(board, dt.datetime.now(dt.UTC)), refresh=True
                )
                if board.status != "running":
                    break
                await asyncio.sleep(WATCH_SECONDS)
        if board.failed:
            out.print(
                volumes_status.make_failure_table(await jobs.list_tasks(job_id, status="failed"))
            )


@app.command()
def retry(job: volumes_status.Job, volumes: Volumes = None) -> None:
    """Retry failed volumes from the stage that failed, with their attempt counts reset.

    This also resumes a cancelled job.
    """
    _rerun(job, None, volumes, only_failed=True, config={})


@app.command()
def rerun(
    job: volumes_status.Job,
    stage: Annotated[
        str, typer.Argument(metavar="STAGE", help=f"One of {', '.join(stages.STAGES)}.")
    ],
    volumes: Volumes = None,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only volumes that failed.")] = False,
    set_: Set = None,
) -> None:
    """Rerun a stage and all later stages."""
    work.require_stage(stage)
    _rerun(job, stage, volumes, only_failed=failed, config=parse_config(set_))


def _rerun(
    job: str,
    stage: str | None,
    volumes: Sequence[str] | None,
    *,
    only_failed: bool,
    config: dict[str, Any],
) -> None:
    names = [jobs_module.VolumeName.parse(text) for text in volumes or ()]

    async def rerun_volumes(jobs: jobs_module.JobRepository) -> tuple[int, int]:
        job_id = await jobs.find(job)
        return await jobs.rerun(
            job_id, stage, volumes=names, only_failed=only_failed, config=config
        )

    count, skipped = volumes_status.run_with_jobs(load_settings(), rerun_volumes)
    stage_name = stage or "the failed stage"
    out.print(f"rerunning from {stage_name}: {progress.format_count(count, 'volume')}")
    if skipped:
        out.print(f"skipped, {stage} not reached yet: {progress.format_count(skipped, 'volume')}")


@app.command()
def cancel(
    job: volumes_status.Job,
    *,
    reason: Annotated[str | None, typer.Option(help="Reason, recorded in the log.")] = None,
) -> None:
    """Cancel a job; finished work is kept, and `retry` resumes the rest."""

    async def cancel_job(jobs: jobs_module.JobRepository) -> int:
        return await jobs.cancel(await jobs.find(job), reason)

    count = volumes_status.run_with_jobs(load_settings(), cancel_job)
    out.print(f"cancelled; unfinished: {progress.format_count(count, 'volume')}")


@app.command()
def export(
    job: volumes_status.Job,
    volumes: Volumes = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Output folder.")
    ] = Path(),
    images: Annotated[
        bool, typer.Option("--images", help="Also download the page and line images.")
    ] = False,
    output_bucket: work.OutputBucket = None,
) -> None:
    """Download the results of volumes: the Parquet files and exports of the job."""
    settings = load_settings()
    names = [jobs_module.VolumeName.parse(text) for text in volumes or ()]

    async def download(jobs: jobs_module.JobRepository) -> int:
        job_id = await jobs.find(job)
        key = (await jobs.get_board(job_id)).job_key
        config = await jobs.get_config(job_id)
        rows = await jobs.list_tasks(job_id)
        known = [jobs_module.VolumeName(row["bdrc_w_id"], row["bdrc_i_id"]) for row in rows]
        if missing := [str(name) for name in names if name not in known]:
            raise errors.InvalidArgument(f"the job has no volume {', '.join(missing)}")
        async with artifacts.open_bucket(
            artifacts.get_output_address(settings, output_bucket), settings
        ) as bucket:
            return sum(
                [
                    await transfer.download_artifacts(
                        bucket,
                        artifact_keys.VolumeKeys(key, name.w_id, name.i_id),
                        config,
                        output,
                        with_images=images,
                    )
                    for name in names or known
                ]
            )

    count = volumes_status.run_with_jobs(settings, download)
    out.print(f"{progress.format_count(count, 'file')} in {output}")
    if not count:
        sys.exit(program.SOME_FAILED)


app.command("list")(volumes_status.list_volumes)
app.command()(volumes_status.history)
app.command("work")(work.work)
app.command()(work.orchestrate)
