"""How many workers each lane gets, and which workers move. Pure functions.

Each lane's share is rounded down, in order, from what the lanes before it have left; the last lane
with work takes the rest. Then lanes below their minimum get it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MIN_DIFFERENCE = 2
"""Lanes short of fewer workers get none, because backlogs fluctuate and moves are costly."""

NO_MOVES = 1_000_000
"""Used as the minimum difference to keep all workers in their lanes."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as the pool sees it: waiting documents, minimum of workers, weight of a document.

    With weight 2 a lane gets twice as much for each waiting document as with weight 1.
    """

    name: str
    backlog: int
    minimum: int = 0
    weight: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker of the pool, the lane assigned to it, for how long it has had that lane, and why."""

    worker_id: str
    lane: str | None
    seconds: float = 0.0
    is_idle: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class MoveRules:
    """Minimum of workers per lane, how long a worker keeps a lane, and what justifies a move."""

    minimums: Mapping[str, int]
    min_stay_seconds: float
    min_difference: int = MIN_DIFFERENCE


def allocate(lanes: Sequence[Lane], size: int) -> dict[str, int]:
    """Distribute all workers of a pool of this size to the lanes."""
    check_minimums({lane.name: lane.minimum for lane in lanes}, size)
    allocated: dict[str, int] = {}
    open_lanes, left = list(lanes), size
    while open_lanes:
        shares = _compute_shares(open_lanes, left)
        short = [lane for lane in open_lanes if shares[lane.name] < lane.minimum]
        if not short:
            allocated |= shares
            break
        # These get their minimum; the rest is distributed to the other lanes from the start.
        for lane in short:
            allocated[lane.name] = lane.minimum
            left -= lane.minimum
        open_lanes = [lane for lane in open_lanes if lane not in short]
    return {lane.name: allocated[lane.name] for lane in lanes}


def check_minimums(minimums: Mapping[str, int], size: int) -> None:
    """Raise SettingsError if the minimums of the lanes exceed the size of the pool."""
    if size < 1:
        raise errors.SettingsError(f"the pool needs at least one worker, not {size}")
    for name, minimum in minimums.items():
        if minimum < 0:
            raise errors.SettingsError(f"the minimum for lane {name} is negative: {minimum}")
    needed = sum(minimums.values())
    if needed > size:
        terms = " + ".join(f"{name} {minimum}" for name, minimum in minimums.items() if minimum)
        raise errors.SettingsError(
            f"the minimums need {needed} workers ({terms}), but the pool has {size}; "
            "increase the pool size or reduce the minimums"
        )


def rebalance(
    workers: Sequence[WorkerState], target: Mapping[str, int], rules: MoveRules
) -> list[WorkerState]:
    """Assign a lane to each worker without one, and move others if the rules justify it."""
    assigned = {worker.worker_id: worker for worker in workers if worker.lane in target}
    counts = Counter(worker.lane for worker in assigned.values())
    for worker in workers:
        if worker.worker_id not in assigned:
            lane = max(target, key=lambda name: target[name] - counts[name])
            counts[lane] += 1
            assigned[worker.worker_id] = _with_lane(worker, lane, "the worker is new")
    for worker, lane in _find_moves(list(assigned.values()), target, rules):
        reason = f"{lane} has {counts[lane]} workers of the {target[lane]} that it should have"
        assigned[worker.worker_id] = _with_lane(worker, lane, reason)
    return [assigned[worker.worker_id] for worker in workers]


def _compute_shares(lanes: Sequence[Lane], size: int) -> dict[str, int]:
    loads = [lane.backlog * lane.weight for lane in lanes]
    if not any(loads):
        loads = [lane.weight for lane in lanes]
    shares, total = {}, sum(loads)
    for lane, load in zip(lanes, loads, strict=True):
        share = int(size * load / total) if total else 0
        shares[lane.name] = share
        size, total = size - share, total - load
    return shares


def _with_lane(worker: WorkerState, lane: str, reason: str) -> WorkerState:
    return replace(worker, lane=lane, seconds=0.0, reason=reason)


def _find_moves(
    workers: Sequence[WorkerState], target: Mapping[str, int], rules: MoveRules
) -> list[tuple[WorkerState, str]]:
    counts = Counter(worker.lane for worker in workers)
    # Idle workers move first, and of those the ones that have been in their lane longest.
    movable = sorted(
        (worker for worker in workers if worker.seconds >= rules.min_stay_seconds),
        key=lambda worker: (not worker.is_idle, -worker.seconds, worker.worker_id),
    )
    moves = []
    for lane in sorted(target, key=lambda name: counts[name] - target[name]):
        if not _justifies_moves(lane, counts, target, rules):
            continue
        for worker in movable:
            if counts[lane] >= target[lane]:
                break
            if worker.lane is not None and counts[worker.lane] > target[worker.lane]:
                counts[worker.lane] -= 1
                counts[lane] += 1
                moves.append((worker, lane))
                movable = [other for other in movable if other is not worker]
    return moves


def _justifies_moves(
    lane: str, counts: Mapping[str | None, int], target: Mapping[str, int], rules: MoveRules
) -> bool:
    missing = target[lane] - counts.get(lane, 0)
    is_below_minimum = counts.get(lane, 0) < min(rules.minimums.get(lane, 0), target[lane])
    return missing >= rules.min_difference or is_below_minimum
