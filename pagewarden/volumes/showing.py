"""Jobs of volumes as tables for people."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType

    from pagewarden.volumes.jobs import Board, StageCount

# An orchestrator looks every 30 seconds.
_LATE_SECONDS = 120
_BAR = 40


def jobs(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Show jobs, one in a line."""
    table = Table("job", "key", "status", "volumes", "done", "failed", "in hand", "since")
    for row in rows:
        table.add_row(
            str(row["job_id"]),
            Text(row["job_key"]),
            _coloured(row["status"]),
            *(f"{row[name]:,}" for name in ("volumes", "done", "failed", "in_hand")),
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
    if seen.outage:
        parts.append(Text(f"Volumes wait, uncounted: {seen.outage}", "yellow"))
    if seen.status == "running" and _is_late(seen.passed_at, now):
        parts.append(
            Text(
                "No orchestrator has been here for a while; start one: "
                "pagewarden volumes orchestrate",
                "yellow",
            )
        )
    return Group(*parts)


def failures(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Show volumes that failed, and why."""
    table = Table("volume", "stage", "attempts", "error", "message")
    for row in rows:
        error = row["last_error"] or {}
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            f"{row['attempts']} of {row['max_attempts']}",
            Text(str(error.get("type", "-"))),
            Text(str(error.get("message", "-"))),
        )
    return table


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


def _in_hand(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("volume", "stage", "pages", "for", "worker")
    for row in rows:
        total = row["pages_total"]
        table.add_row(
            Text(f"{row['bdrc_w_id']}-{row['bdrc_i_id']}"),
            row["stage"],
            f"{row['pages_done']:,} of {total:,}" if total else "-",
            f"{row['seconds']:.0f} s",
            Text(row["worker"]),
        )
    return table


def _is_late(passed_at: str | None, now: dt.datetime) -> bool:
    if passed_at is None:
        return True
    return (now - dt.datetime.fromisoformat(passed_at)).total_seconds() > _LATE_SECONDS


def _coloured(status: str) -> Text:
    colours = {"completed": "green", "failed": "red", "cancelled": "yellow"}
    return Text(status, colours.get(status, "cyan"))


def _moment(timestamp: str) -> str:
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M")
