"""The manager: one of the pool's programs leads, and shares the workers out anew now and then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.pool import moves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.database import Database, rows
    from pagewarden.pool.plans import Plan

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Manager:
    """Leads when nobody else does. Its death costs nothing: workers stay where they are."""

    database: Database
    process: str
    plan: Plan

    async def run(self, stop: asyncio.Event) -> None:
        """Look every interval."""
        while not stop.is_set():
            await self.look()
            try:
                async with asyncio.timeout(self.plan.interval_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    async def look(self) -> bool:
        """Share the workers out if it is ours to do, and tell whether it was."""
        try:
            seen = await self.database.lead_pool(
                process=self.process, lease_seconds=self.plan.lease_seconds
            )
            term, workers = seen["term"], seen["workers"]
            if term is None or workers is None:
                return False
            await self._assign(term, seen["backlog"], workers)
        except errors.DatabaseError as exc:
            log.warning("rebalance_failed", process=self.process, error=str(exc))
            return False
        return True

    async def _assign(
        self, term: int, waiting: Mapping[str, int], present: Sequence[rows.AssignableWorker]
    ) -> None:
        backlog = {lane: waiting.get(lane, 0) for lane in self.plan.lanes}
        workers = assigned(self.plan, backlog, [_worker(row) for row in present])
        answer = await self.database.assign_pool(
            process=self.process,
            term=term,
            workers=[{"worker_id": w.worker_id, "lane": w.lane} for w in workers],
            backlog=backlog,
        )
        if answer["success"] and answer["switches"]:
            log.info("rebalanced", backlog=backlog, switches=answer["switches"])


def assigned(
    plan: Plan, backlog: Mapping[str, int], workers: list[moves.Worker]
) -> list[moves.Worker]:
    """Give every worker a lane, for this backlog."""
    if not workers:
        return []
    target = plan.allocate(backlog, len(workers))
    # What waits for less than one document of everybody is gone before a move would help.
    is_calm = sum(backlog.values()) < len(workers)
    difference = moves.NEVER if is_calm else moves.REAL_DIFFERENCE
    rules = moves.Rules(plan.minimums_of(len(workers)), plan.keep_seconds, difference)
    return moves.rebalance(workers, target, rules)


def _worker(row: rows.AssignableWorker) -> moves.Worker:
    return moves.Worker(row["worker_id"], row["lane"], row["seconds"] or 0.0, row["is_idle"])
