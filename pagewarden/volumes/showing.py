"""Jobs of volumes as tables for people."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from pagewarden.database import rows
    from pagewarden.volumes.jobs import Board, StageCount

# An orchestrator looks every 30 seconds.
_LATE_SECONDS = 120
_BAR = 40


def jobs(shown: Iterable[rows.ListedVolumeJob]) -> Table:
    """Show jobs, one in a line."""
    table = Table("job", "key", "status", "volumes", "done", "failed", "in hand", "since")
    for row in shown:
        table.add_row(
            str(row["job_id"]),
            Text(row["job_key"]),
            _coloured(row["status"]),
            f"{row['volumes']:,}",
            f"{row['done']:,}",
            f"{row['failed']:,}",
            f"{row['in_hand']:,}",
            _moment(row["created_at"]),
        )
    return table


def board(seen: Board, now: dt.datetime) -> RenderableType:
    """Show a job: how far it is, stage by stage, and what is in hand."""
    heading = Text.assemble(
        f"job {seen.job_id}  {seen.job_key}  ",
        _coloured(seen.status),
        f"  {seen.done:,} of {seen.volumes:,} volumes done",
        (f", {seen.failed:,} failed" if seen.failed else "", "red"),
    )
    bar = Padding(ProgressBar(total=max(seen.volumes, 1), completed=seen.done, width=_BAR), 0)
    parts: list[RenderableType] = [heading, bar, _stages(seen.stages)]
    if seen.in_hand:
        parts.append(_in_hand(seen.in_hand))
    return Group(*parts, *notices(seen, now))


def notices(seen: Board, now: dt.datetime) -> list[Text]:
    """Say what a job waits for that somebody has to see to."""
    found = []
    if seen.outage:
        found.append(Text(f"Volumes wait, uncounted: {seen.outage}", "yellow"))
    if seen.status == "running" and _is_late(seen.passed_at, now):
        found.append(
            Text(
                "No orchestrator has been here for a while; start one: "
                "pagewarden volumes orchestrate",
                "yellow",
            )
        )
    return found


def failures(shown: Iterable[rows.ListedVolumeTask]) -> Table:
    """Show volumes that failed, and why."""
    table = Table("volume", "stage", "attempts", "error", "message")
    for row in shown:
        error = row["last_error"] or {}
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            f"{row['attempts']} of {row['max_attempts']}",
            Text(str(error.get("type", "-"))),
            Text(str(error.get("message", "-"))),
        )
    return table


def volumes(shown: Iterable[rows.ListedVolumeTask]) -> Table:
    """Show volumes of a job, one in a line, with what came out of them."""
    # No frame, and names that stay whole: this fits into 80 columns.
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("volume", "stage", "status", "attempts", "pages", "lines", "characters"):
        table.add_column(name, no_wrap=True)
    for row in shown:
        result = row["result"]
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            _coloured(row["status"]),
            f"{row['attempts']} of {row['max_attempts']}",
            _pages(row["pages_done"], row["pages_total"]),
            _number(result["total_lines"] if result else None),
            _number(result["total_characters"] if result else None),
        )
    return table


def turns(shown: Iterable[rows.VolumeRuns]) -> RenderableType:
    """Show turns of workers at a volume: one in a line, and what went wrong below it."""
    lines: list[Text] = []
    for row in shown:
        pages = f"{_number(row['pages'])} pages" if row["pages"] is not None else ""
        failed = f", {row['failed_pages']:,} failed" if row["failed_pages"] else ""
        outcome = _coloured(f"{row['outcome'] or 'in hand':<10}")
        lines.append(
            Text.assemble(
                f"{_moment(row['started_at'])}  {row['stage']:<15}  ",
                outcome,
                f"  {_lasted(row['started_at'], row['ended_at']):>9}  ",
                "  ".join(part for part in (f"{pages}{failed}", row["worker_id"]) if part),
            )
        )
        if row["error"]:
            lines.append(Text(f"    {row['error'].get('message', '-')}"))
    return Group(*lines)


def _stages(counts: Iterable[StageCount]) -> Table:
    table = Table("stage", "waiting", "in hand", "done", "failed", "s/volume", "pages/s")
    for count in counts:
        table.add_row(
            count.stage,
            f"{count.waiting:,}",
            f"{count.in_hand:,}",
            f"{count.passed:,}",
            Text(f"{count.failed:,}", "red" if count.failed else ""),
            f"{count.seconds / count.turns:.1f}" if count.turns else "-",
            f"{count.pages / count.seconds:.1f}" if count.seconds else "-",
        )
    return table


def _in_hand(shown: Iterable[rows.VolumeInProgress]) -> Table:
    table = Table("volume", "stage", "pages", "for", "worker")
    for row in shown:
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            _pages(row["pages_done"], row["pages_total"]),
            f"{row['seconds']:.0f} s",
            Text(row["worker"]),
        )
    return table


def _pages(done: int, total: int | None) -> str:
    return f"{done:,} of {total:,}" if total else "-"


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _lasted(started_at: str, ended_at: str | None) -> str:
    if ended_at is None:
        return "-"
    lasted = dt.datetime.fromisoformat(ended_at) - dt.datetime.fromisoformat(started_at)
    return f"{lasted.total_seconds():.1f} s"


def _is_late(passed_at: str | None, now: dt.datetime) -> bool:
    if passed_at is None:
        return True
    return (now - dt.datetime.fromisoformat(passed_at)).total_seconds() > _LATE_SECONDS


def _coloured(status: str) -> Text:
    colours = {"completed": "green", "done": "green", "failed": "red", "cancelled": "yellow"}
    return Text(status, colours.get(status.strip(), "cyan"))


def _moment(timestamp: str) -> str:
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")
