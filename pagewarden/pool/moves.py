"""Which workers change their lane so that the pool comes closer to its allocation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REAL_DIFFERENCE = 2
"""By fewer workers than that no lane is changed: backlogs tremble, and a change costs."""

NEVER = 1_000_000
"""A difference that no lane has."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of the pool: the lane it is to serve, and for how long it has been."""

    worker_id: str
    lane: str | None
    seconds: float = 0.0
    is_idle: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """How many workers each lane has at least, how long one stays, what is worth a move."""

    minimums: Mapping[str, int]
    keep_seconds: float
    difference: int = REAL_DIFFERENCE


def rebalance(workers: Sequence[Worker], target: Mapping[str, int], rules: Rules) -> list[Worker]:
    """Give every worker a lane: those who have none at once, the others when it is worth while."""
    settled = {w.worker_id: w for w in workers if w.lane in target}
    counts = Counter(w.lane for w in settled.values())
    for worker in workers:
        if worker.worker_id not in settled:
            lane = max(target, key=lambda name: target[name] - counts[name])
            counts[lane] += 1
            settled[worker.worker_id] = _moved(worker, lane)
    for worker, lane in _moves(list(settled.values()), target, rules):
        settled[worker.worker_id] = _moved(worker, lane)
    return [settled[w.worker_id] for w in workers]


def _moved(worker: Worker, lane: str) -> Worker:
    return replace(worker, lane=lane, seconds=0.0)


def _moves(
    workers: Sequence[Worker], target: Mapping[str, int], rules: Rules
) -> list[tuple[Worker, str]]:
    counts = Counter(w.lane for w in workers)
    # Whoever does nothing goes first, and of those who has been there longest.
    willing = sorted(
        (w for w in workers if w.seconds >= rules.keep_seconds),
        key=lambda w: (not w.is_idle, -w.seconds, w.worker_id),
    )
    found = []
    for lane in sorted(target, key=lambda name: counts[name] - target[name]):
        if not _is_worth_while(lane, counts, target, rules):
            continue
        for worker in willing:
            if counts[lane] >= target[lane]:
                break
            if worker.lane is not None and counts[worker.lane] > target[worker.lane]:
                counts[worker.lane] -= 1
                counts[lane] += 1
                found.append((worker, lane))
                willing = [w for w in willing if w is not worker]
    return found


def _is_worth_while(
    lane: str, counts: Mapping[str | None, int], target: Mapping[str, int], rules: Rules
) -> bool:
    missing = target[lane] - counts.get(lane, 0)
    below = counts.get(lane, 0) < min(rules.minimums.get(lane, 0), target[lane])
    return missing >= rules.difference or below
