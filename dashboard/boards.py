"""Volumes of a job on a board: a column for each stage, and the first volumes in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dashboard import visitors
from pagewarden.database import answers, rows
from pagewarden.volumes import jobs, stages

CARDS = 8
"""So many volumes of a stage are shown, the others are counted."""

_State = tuple[str, str]

# Who is done with a stage waits for the next one.
_COLUMNS: Mapping[str, Sequence[_State]] = MappingProxyType(
    {
        "pending": [("pending", "pending")],
        "line_detection": [("line_detection", "running")],
        "line_extraction": [("line_extraction", "running"), ("line_detection", "done")],
        "ocr": [("ocr", "running"), ("line_extraction", "done")],
        "reduce": [("reduce", "running"), ("ocr", "done")],
        "done": [("done", "done")],
        "failed": [(stage, "failed") for stage in stages.STAGES],
    }
)
# As private.volume_status_rank has them: lists begin with the failed ones.
_RANKS = MappingProxyType({"failed": 0, "running": 1, "done": 2, "pending": 3})
_LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Column:
    """A stage: how many volumes there are, how many of them a worker has, and the first."""

    name: str
    volumes: int
    in_hand: int
    cards: Sequence[rows.ListedVolumeTask]


async def laid(visitor: visitors.Visitor, seen: rows.VolumeBoardAnswer) -> list[Column]:
    """Lay out the board of what volume_board has answered."""
    counts, job_id = jobs.count_by_stage(seen), answers.require(seen["job_id"])
    found = []
    for name, states in _COLUMNS.items():
        there = {state: counts[state] for state in states if state in counts}
        in_hand = seen["in_hand_by_stage"].get(name, 0)
        cards = await _cards(visitor, job_id, there)
        found.append(Column(name, sum(there.values()), in_hand, cards))
    return found


async def _cards(
    visitor: visitors.Visitor, job_id: int, there: Mapping[_State, int]
) -> list[rows.ListedVolumeTask]:
    cards: list[rows.ListedVolumeTask] = []
    for (stage, status), count in there.items():
        wanted = min(count, CARDS - len(cards))
        if wanted > 0:
            cards += await visitor.database.list_volume_tasks(
                job_id=job_id,
                stage=stage,
                status=status,
                # Straight to those of this status, and no further than the last of them.
                after_rank=_RANKS[status] - 1,
                after_id=_LAST_ID,
                limit=wanted,
            )
    return cards
