"""Why a job of volumes may stand still: nobody moves them on, or nobody works at a stage."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard import visitors
from pagewarden.database import tables
from pagewarden.volumes import jobs

# An orchestrator looks every 30 seconds.
_LATE_SECONDS = 120
# Workers that have just been started have loaded their models by then.
_PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Wait:
    """A stage that volumes wait for while no worker has one of them; since when the first does."""

    stage: str
    volumes: int
    since: str


def is_unmoved(board: jobs.Board) -> bool:
    """Tell whether no orchestrator has looked for long."""
    if board.status != "running":
        return False
    return board.passed_at is None or _age(board.passed_at) > _LATE_SECONDS


async def for_workers(visitor: visitors.Visitor, board: jobs.Board) -> Sequence[Wait]:
    """Find the stages that volumes have waited for long, with nobody at it."""
    if board.status != "running" or board.outage:
        return []
    found = []
    for stage in board.stages:
        if not stage.in_hand and stage.waiting:
            rows = await visitor.database.select(
                tables.volume_tasks,
                columns="published_at",
                where={
                    "job_id": board.job_id,
                    "current_stage": stage.stage,
                    "status": "running",
                    "token": None,
                },
                order="published_at",
                limit=1,
            )
            found += [
                Wait(stage.stage, stage.waiting, row["published_at"])
                for row in rows
                if row["published_at"]
            ]
    return [wait for wait in found if _age(wait.since) > _PATIENCE_SECONDS]


def _age(timestamp: str) -> float:
    return (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(timestamp)).total_seconds()
