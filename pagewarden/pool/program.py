"""One program of the pool: its workers, their assignments, and a manager that may be the leader."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.documents import worker as workers
from pagewarden.pool import manager
from pagewarden.pool.capacity import Capacity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pagewarden.database import Database
    from pagewarden.database.listener import Listener
    from pagewarden.documents.claim import ReaderSelector
    from pagewarden.pool.plan import PoolPlan

log = structlog.get_logger(__name__)

REPORT_SECONDS = 2.0
SWEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PoolProgram:
    """What the workers of a program share; `process` identifies it among the pool's programs."""

    database: Database
    reader: ReaderSelector
    listener: Listener
    process: str
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = workers.IDLE_SECONDS

    async def run(self, plan: PoolPlan, stop: asyncio.Event) -> None:
        """Process documents until `stop` is set; then release them and unregister the workers."""
        assignments = Assignments(self.database, self.process, plan.get_minimums(plan.size))
        pool_workers = self._make_workers(plan, assignments)
        await assignments.report()
        leader = manager.PoolManager(self.database, self.process, plan)
        report_seconds = min(REPORT_SECONDS, plan.interval_seconds / 4)
        background = [
            asyncio.create_task(coroutine)
            for coroutine in (
                leader.run(stop),
                assignments.run(stop, seconds=report_seconds),
                # Documents of dead workers are reclaimed even where no scheduler runs.
                workers.sweep_periodically(self.database, stop, seconds=SWEEP_SECONDS),
            )
        ]
        try:
            await workers.run_workers(pool_workers, stop)
        finally:
            stop.set()
            await asyncio.gather(*background, return_exceptions=True)
            await assignments.unregister()

    def _make_workers(self, plan: PoolPlan, assignments: Assignments) -> list[PoolWorker]:
        machine = Capacity(plan.cpu, plan.megabytes, on_release=self.listener.notify)
        pool_workers = []
        for number in range(1, plan.local_size + 1):
            worker_id = f"{self.process}-{number}"
            assignment = assignments.by_worker[worker_id] = Assignment()
            pool_workers.append(
                PoolWorker(
                    self.database,
                    self.reader,
                    worker_id=worker_id,
                    lanes=plan.lanes,
                    lock_seconds=self.lock_seconds,
                    heartbeat_seconds=self.heartbeat_seconds,
                    idle_seconds=self.idle_seconds,
                    listener=self.listener,
                    assignment=assignment,
                    assignments=assignments,
                    capacity=machine,
                )
            )
        return pool_workers


@dataclass(slots=True)
class Assignment:
    """The lane assigned to a worker, and the document that it reads."""

    lane: str | None = None
    reads_lane: str | None = None
    reads_document: str | None = None


@dataclass(slots=True)
class Assignments:
    """The assignments of this program's workers, and how many workers of the pool read per lane."""

    database: Database
    process: str
    minimums: Mapping[str, int]
    by_worker: dict[str, Assignment] = field(default_factory=dict)
    reading: Mapping[str, int] = field(default_factory=dict)
    waiting: Collection[str] = ()

    def find_lanes_below_minimum(self) -> list[str]:
        """Return the lanes in which fewer workers read than their minimum."""
        return [
            lane for lane, minimum in self.minimums.items() if self.reading.get(lane, 0) < minimum
        ]

    def find_urgent_lanes(self) -> list[str]:
        """Return the lanes below their minimum that have work."""
        return [lane for lane in self.find_lanes_below_minimum() if lane in self.waiting]

    async def run(self, stop: asyncio.Event, *, seconds: float = REPORT_SECONDS) -> None:
        """Report regularly until `stop` is set."""
        while not stop.is_set():
            await self.report()
            await concurrency.wait(stop, seconds=seconds)

    async def report(self) -> None:
        """Report the workers and what they read; receive their lanes."""
        try:
            answer = await self.database.report_pool(
                process=self.process, workers=list(self._make_rows())
            )
        except errors.DatabaseError as exc:
            # The workers keep their lanes.
            log.warning("pool_report_failed", process=self.process, error=str(exc))
            return
        self.reading, self.waiting = answer["reading"], answer["waiting"]
        for worker_id, lane in answer["lanes"].items():
            if (assignment := self.by_worker.get(worker_id)) is not None:
                assignment.lane = lane

    async def unregister(self) -> None:
        """Remove all workers of this program from the pool."""
        self.by_worker.clear()
        await self.report()

    def _make_rows(self) -> Iterator[dict[str, object]]:
        for worker_id, assignment in self.by_worker.items():
            yield {
                "worker_id": worker_id,
                "lane": assignment.reads_lane,
                "document_id": assignment.reads_document,
            }


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWorker(workers.Worker):
    """Serves its assigned lane, and the other lanes when that one is empty.

    The assignment is looked up before each claim, so a change of lane interrupts no document.
    Capacity is reserved before a claim, so that no claimed document waits for it.
    """

    assignment: Assignment
    assignments: Assignments = field(repr=False)
    capacity: Capacity = field(repr=False)

    async def process_next(self, stop: asyncio.Event) -> bool:
        """Claim and process a document, if there is one and capacity for it."""
        try:
            processed = await self._try_process(stop)
            if processed is None:
                await self.database.wait_for_documents(lanes=list(self.lanes))
                processed = await self._try_process(stop)
            return bool(processed)
        except (errors.DatabaseUnavailable, errors.Conflict) as exc:
            log.warning("claim_failed", error=str(exc))
            return False

    def get_lane_order(self) -> list[str]:
        """Return the lanes in order: those below their minimum, its own, then all others."""
        preferred = [
            *self.assignments.find_lanes_below_minimum(),
            self.assignment.lane,
            *self.lanes,
        ]
        # A program with other lanes may lead the pool, and assign some that are not served here.
        return [
            lane for lane in dict.fromkeys(preferred) if lane is not None and lane in self.lanes
        ]

    async def _try_process(self, stop: asyncio.Event) -> bool | None:
        """Process a document: True; no document: None; no capacity: False."""
        urgent = self.assignments.find_urgent_lanes()
        with self.capacity.reserve(self.get_lane_order(), urgent) as reservation:
            if not reservation.lanes:
                return False
            claim = await self.claim(reservation.lanes)
            if claim is None:
                return None
            reservation.confirm(claim.lane)
            self.assignment.reads_lane = claim.lane
            self.assignment.reads_document = str(claim.id)
            try:
                await self.process(claim, stop)
            finally:
                self.assignment.reads_lane = self.assignment.reads_document = None
            return True
