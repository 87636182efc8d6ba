"""The leader of the pool assigns the workers of all programs to lanes, at regular intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.pool import allocation

if TYPE_CHECKING:
    import asyncio
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
        """Rebalance once per interval until `stop` is set."""
        while not stop.is_set():
            await self.rebalance_once()
            await concurrency.wait(stop, seconds=self.plan.interval_seconds)

    async def rebalance_once(self) -> bool:
        """Assign the workers if this program is the leader; return whether it is."""
        try:
            pool = await self.database.lead_pool(
                process=self.process, lease_seconds=self.plan.lease_seconds
            )
            term, workers = pool["term"], pool["workers"]
            if term is None or workers is None:
                return False
            await self._assign(term, pool["backlog"], workers)
        except errors.DatabaseError as exc:
            log.warning("pool_rebalance_failed", process=self.process, error=str(exc))
            return False
        return True

    async def _assign(
        self, term: int, backlog: Mapping[str, int], workers: Sequence[rows.AssignableWorker]
    ) -> None:
        lane_backlog = {lane: backlog.get(lane, 0) for lane in self.plan.lanes}
        assigned = assign_lanes(
            self.plan, lane_backlog, [_make_worker_state(row) for row in workers]
        )
        answer = await self.database.assign_pool(
            process=self.process,
            term=term,
            workers=[{"worker_id": w.worker_id, "lane": w.lane} for w in assigned],
            backlog=lane_backlog,
        )
        if answer["success"] and answer["switches"]:
            log.info("pool_rebalanced", backlog=lane_backlog, switches=answer["switches"])


def assign_lanes(
    plan: PoolPlan, backlog: Mapping[str, int], workers: Sequence[allocation.WorkerState]
) -> list[allocation.WorkerState]:
    """Assign a lane to every worker for this backlog."""
    if not workers:
        return []
    target = plan.allocate(backlog, len(workers))
    # With fewer documents than workers the queue is empty before a move would help.
    is_short = sum(backlog.values()) < len(workers)
    rules = allocation.MoveRules(
        plan.get_minimums(len(workers)),
        plan.min_stay_seconds,
        allocation.NO_MOVES if is_short else allocation.MIN_DIFFERENCE,
    )
    return allocation.rebalance(workers, target, rules)


def _make_worker_state(row: rows.AssignableWorker) -> allocation.WorkerState:
    return allocation.WorkerState(
        row["worker_id"], row["lane"], row["seconds"] or 0.0, row["is_idle"]
    )
