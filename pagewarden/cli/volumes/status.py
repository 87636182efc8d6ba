"""`pagewarden volumes list` and `history`; tables of jobs and stages; waiting for a job."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console, Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pagewarden import errors
from pagewarden.cli import program, progress
from pagewarden.local import stack
from pagewarden.settings import load as load_settings
from pagewarden.volumes import stages
from pagewarden.volumes.jobs import JobBoard, JobRepository, VolumeName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rich.console import RenderableType

    from pagewarden.database import rows
    from pagewarden.settings import Settings
    from pagewarden.volumes.jobs import JobBoard, StageCount

# An orchestrator runs every 30 seconds.
_LATE_SECONDS = 120
_BAR_WIDTH = 40


def make_job_table(jobs: Iterable[rows.ListedVolumeJob]) -> Table:
    """Make a table of jobs."""
    table = Table("job", "key", "status", "volumes", "done", "failed", "active", "created")
    for row in jobs:
        table.add_row(
            str(row["job_id"]),
            Text(row["job_key"]),
            _colour_status(row["status"]),
            f"{row['volumes']:,}",
            f"{row['done']:,}",
            f"{row['failed']:,}",
            f"{row['in_hand']:,}",
            _format_time(row["created_at"]),
        )
    return table


def render_board(board: JobBoard, now: dt.datetime) -> RenderableType:
    """Render the stages and active volumes of a job."""
    heading = Text.assemble(
        f"job {board.job_id}  {board.job_key}  ",
        _colour_status(board.status),
        f"  {board.done:,} of {board.volumes:,} volumes done",
        (f", {board.failed:,} failed" if board.failed else "", "red"),
    )
    bar = Padding(
        ProgressBar(total=max(board.volumes, 1), completed=board.done, width=_BAR_WIDTH), 0
    )
    parts: list[RenderableType] = [heading, bar, _make_stage_table(board.stages)]
    if board.in_hand:
        parts.append(_make_active_table(board.in_hand))
    return Group(*parts, *make_stall_notices(board, now))


def make_stall_notices(board: JobBoard, now: dt.datetime) -> list[Text]:
    """Explain why a job is stalled."""
    found = []
    if board.outage:
        found.append(Text(f"Waiting for an outage to end: {board.outage}", "yellow"))
    if board.status == "running" and _is_late(board.passed_at, now):
        found.append(
            Text(
                "No orchestrator is running; start one with `pagewarden volumes orchestrate`",
                "yellow",
            )
        )
    return found


def make_failure_table(volumes: Iterable[rows.ListedVolumeTask]) -> Table:
    """Make a table of failed volumes with their errors."""
    table = Table("volume", "stage", "attempts", "error", "message")
    for row in volumes:
        error = row["last_error"] or {}
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            f"{row['attempts']} of {row['max_attempts']}",
            Text(str(error.get("type", "-"))),
            Text(str(error.get("message", "-"))),
        )
    return table


def make_volume_table(volumes: Iterable[rows.ListedVolumeTask]) -> Table:
    """Make a table of volumes with their results."""
    # Without a frame and wrapped names, the table fits into 80 columns.
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("volume", "stage", "status", "attempts", "pages", "lines", "characters"):
        table.add_column(name, no_wrap=True)
    for row in volumes:
        result = row["result"]
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            _colour_status(row["status"]),
            f"{row['attempts']} of {row['max_attempts']}",
            _format_pages(row["pages_done"], row["pages_total"]),
            _format_number(result["total_lines"] if result else None),
            _format_number(result["total_characters"] if result else None),
        )
    return table


def make_attempt_table(attempts: Iterable[rows.VolumeRuns]) -> RenderableType:
    """Render the attempts at a volume, each with its error."""
    lines: list[Text] = []
    for row in attempts:
        pages = f"{_format_number(row['pages'])} pages" if row["pages"] is not None else ""
        failed = f", {row['failed_pages']:,} failed" if row["failed_pages"] else ""
        outcome = _colour_status(f"{row['outcome'] or 'active':<10}")
        lines.append(
            Text.assemble(
                f"{_format_time(row['started_at'])}  {row['stage']:<15}  ",
                outcome,
                f"  {_format_duration(row['started_at'], row['ended_at']):>9}  ",
                "  ".join(part for part in (f"{pages}{failed}", row["worker_id"]) if part),
            )
        )
        if row["error"]:
            lines.append(Text(f"    {row['error'].get('message', '-')}"))
    return Group(*lines)


def _make_stage_table(counts: Iterable[StageCount]) -> Table:
    table = Table("stage", "waiting", "active", "done", "failed", "s/volume", "pages/s")
    for count in counts:
        table.add_row(
            count.stage,
            f"{count.waiting:,}",
            f"{count.in_hand:,}",
            f"{count.passed:,}",
            Text(f"{count.failed:,}", "red" if count.failed else ""),
            f"{count.seconds / count.attempts:.1f}" if count.attempts else "-",
            f"{count.pages / count.seconds:.1f}" if count.seconds else "-",
        )
    return table


def _make_active_table(volumes: Iterable[rows.VolumeInProgress]) -> Table:
    table = Table("volume", "stage", "pages", "time", "worker")
    for row in volumes:
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            _format_pages(row["pages_done"], row["pages_total"]),
            f"{row['seconds']:.0f} s",
            Text(row["worker"]),
        )
    return table


def _format_pages(done: int, total: int | None) -> str:
    return f"{done:,} of {total:,}" if total else "-"


def _format_number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _format_duration(started_at: str, ended_at: str | None) -> str:
    if ended_at is None:
        return "-"
    duration = dt.datetime.fromisoformat(ended_at) - dt.datetime.fromisoformat(started_at)
    return f"{duration.total_seconds():.1f} s"


def _is_late(last_step_at: str | None, now: dt.datetime) -> bool:
    if last_step_at is None:
        return True
    return (now - dt.datetime.fromisoformat(last_step_at)).total_seconds() > _LATE_SECONDS


def _colour_status(status: str) -> Text:
    colours = {"completed": "green", "done": "green", "failed": "red", "cancelled": "yellow"}
    return Text(status, colours.get(status.strip(), "cyan"))


def _format_time(timestamp: str) -> str:
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")


T = TypeVar("T")

POLL_SECONDS = 2.0

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Job = Annotated[str, typer.Argument(metavar="JOB", help="Job key or number.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Wait until the job ends; exit code 1 unless it was completed."),
]


def run_with_jobs(settings: Settings, action: Callable[[JobRepository], Awaitable[T]]) -> T:
    """Connect to the database and call a function with its jobs."""

    async def run() -> T:
        async with stack.open_database(settings) as connection:
            return await action(JobRepository(connection))

    return asyncio.run(run())


def wait_for_job(settings: Settings, job: str) -> JobBoard:
    """Wait until a job ends and show its progress; Ctrl-C stops only the command."""
    ended: list[JobBoard] = []

    async def run() -> None:
        async with stack.open_database(settings) as connection:
            jobs = JobRepository(connection)
            ended.append(await _wait_for_end(jobs, await jobs.find(job)))

    try:
        asyncio.run(program.run_until_terminated(run()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        message = (
            "interrupted, but the job continues; to wait for it, run `pagewarden volumes status "
            f"{job} --wait`"
        )
        progress.print_line(err, message)
        sys.exit(program.INTERRUPTED)
    return ended[0]


async def _wait_for_end(jobs: JobRepository, job_id: int) -> JobBoard:
    printed: list[str] = []
    with progress.make_progress_bar(err) as bar:
        task = bar.add_task("volumes", unit="volumes")
        while True:
            try:
                board = await jobs.get_board(job_id)
            except errors.DatabaseUnavailable as exc:
                notices = [str(exc)]
            else:
                bar.update(task, completed=board.done, total=board.volumes)
                if board.status != "running":
                    return board
                notices = [
                    text.plain for text in make_stall_notices(board, dt.datetime.now(dt.UTC))
                ]
            for notice in notices:
                if notice not in printed:
                    progress.print_line(bar.console, notice)
            printed = notices
            await asyncio.sleep(POLL_SECONDS)


_STAGES = ("pending", *stages.STAGES, "done")
_STATUSES = ("pending", "running", "done", "failed")


def list_volumes(
    job: Job,
    *,
    stage: Annotated[
        str | None, typer.Option(help=f"Only volumes in this stage: {', '.join(_STAGES)}.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only volumes with this status: {', '.join(_STATUSES)}.")
    ] = None,
    json: Json = False,
) -> None:
    """List the volumes of a job, failed ones first."""
    _require_choice("stage", stage, _STAGES)
    _require_choice("status", status, _STATUSES)

    async def fetch(jobs: JobRepository) -> list[rows.ListedVolumeTask]:
        return await jobs.list_tasks(await jobs.find(job), stage=stage, status=status)

    listed = run_with_jobs(load_settings(), fetch)
    if json:
        out.print_json(data=listed)
    else:
        out.print(make_volume_table(listed) if listed else "no volumes match")


def history(
    job: Job,
    volume: Annotated[str, typer.Argument(metavar="VOLUME", help="Volume, such as W22084-I0886.")],
    *,
    json: Json = False,
) -> None:
    """Show all attempts at a volume, newest first, with duration and outcome."""
    name = VolumeName.parse(volume)

    async def fetch(jobs: JobRepository) -> list[rows.VolumeRuns]:
        return await jobs.list_attempts(await jobs.find(job), name)

    runs = run_with_jobs(load_settings(), fetch)
    if json:
        out.print_json(data=runs)
    else:
        out.print(make_attempt_table(runs) if runs else "there are no attempts yet")


def _require_choice(kind: str, value: str | None, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise typer.BadParameter(f"unknown {kind} {value!r}; choose from {', '.join(choices)}")
