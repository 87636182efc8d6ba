"""The leader of the pool assigns the workers of all programs to lanes, at regular intervals."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.pool import allocation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.database import Database, rows
    from pagewarden.pool.plan import PoolPlan

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PoolManager:
    """Acquires leadership, and rebalances the pool while it is the leader.

    Workers keep their lanes when the leader dies, until another program takes over.
    """

    database: Database
    process: str
    plan: PoolPlan

    async def run(self, stop: asyncio.Event) -> None:
        """Rebalance once per interval until `stop` is set; apply for leadership more often."""
        clock = asyncio.get_running_loop().time
        apply_seconds = min(self.plan.interval_seconds, self.plan.lease_seconds / 3)
        due = clock()
        while not stop.is_set():
            is_due = clock() >= due
            if await self.rebalance_once(only_new=not is_due) and is_due:
                due = clock() + self.plan.interval_seconds
            await concurrency.wait(stop, seconds=apply_seconds)

    async def rebalance_once(self, *, only_new: bool = False) -> bool:
        """Assign the workers if this program is the leader; return whether it is.

        only_new: nothing changes unless there are workers without a lane.
        """
        try:
            pool = await self.database.lead_pool(
                process=self.process, lease_seconds=self.plan.lease_seconds
            )
            term, workers = pool["term"], pool["workers"]
            if term is None or workers is None:
                return False
            if not only_new or any(worker["lane"] is None for worker in workers):
                await self._assign(term, pool["backlog"] or {}, workers)
        except errors.DatabaseError as exc:
            log.warning("pool_rebalance_failed", process=self.process, error=str(exc))
            return False
        return True

    async def _assign(
        self, term: int, backlog: Mapping[str, int], workers: Sequence[rows.AssignableWorker]
    ) -> None:
        assigned = assign_lanes(self.plan, backlog, workers)
        answer = await self.database.assign_pool(
            process=self.process,
            term=term,
            workers=[
                {"worker_id": w.worker_id, "lane": w.lane, "reason": w.reason} for w in assigned
            ],
            backlog=backlog,
        )
        if answer["success"]:
            lanes = {row["worker_id"]: row["lane"] for row in workers}
            for w in assigned:
                if lanes[w.worker_id] not in {None, w.lane}:
                    before = lanes[w.worker_id]
                    log.info(
                        "worker_switched",
                        worker=w.worker_id,
                        from_lane=before,
                        lane=w.lane,
                        reason=w.reason,
                    )


def assign_lanes(
    plan: PoolPlan, backlog: Mapping[str, int], workers: Sequence[rows.AssignableWorker]
) -> list[allocation.WorkerState]:
    """Assign a lane to every worker; programs that serve the same lanes share their workers."""
    groups: defaultdict[tuple[str, ...], list[allocation.WorkerState]] = defaultdict(list)
    for row in workers:
        lanes = tuple(plan.sort_lanes(row["lanes"]))
        groups[lanes].append(
            allocation.WorkerState(
                row["worker_id"], row["lane"], float(row["seconds"] or 0), row["is_idle"]
            )
        )
    return [
        worker
        for lanes, members in groups.items()
        for worker in assign_group(plan, {lane: backlog.get(lane, 0) for lane in lanes}, members)
    ]


def assign_group(
    plan: PoolPlan, backlog: Mapping[str, int], workers: Sequence[allocation.WorkerState]
) -> list[allocation.WorkerState]:
    """Assign a lane of the backlog to every worker."""
    # With fewer documents than workers the queue is empty before a move would help.
    is_short = sum(backlog.values()) < len(workers)
    rules = allocation.MoveRules(
        plan.get_minimums(backlog, len(workers)),
        plan.min_stay_seconds,
        allocation.NO_MOVES if is_short else allocation.MIN_DIFFERENCE,
    )
    return allocation.rebalance(workers, plan.allocate(backlog, len(workers)), rules)
