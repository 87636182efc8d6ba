"""One program of the pool: its workers, what they know of the pool, and a manager that may lead."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.documents import worker as workers
from pagewarden.pool import manager
from pagewarden.pool.capacity import Capacity, Reservation, open_machine_usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pagewarden.database import Database
    from pagewarden.database.listener import Listener
    from pagewarden.documents.claim import Claim, ReaderSelector
    from pagewarden.pool.plan import PoolPlan

log = structlog.get_logger(__name__)

REPORT_SECONDS = 2.0
SWEEP_SECONDS = 5.0
# A stopping program does not wait for the end of a database outage.
UNREGISTER_SECONDS = 2.0
TURN_SECONDS = 3.0


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
    budget_seconds: float | None = None

    async def run(self, plan: PoolPlan, stop: asyncio.Event) -> None:
        """Process documents until `stop` is set; then release them and unregister the workers."""
        with contextlib.ExitStack() as resources:
            on_release = functools.partial(self.listener.notify, workers.CAPACITY)
            usage = resources.enter_context(open_machine_usage(plan.usage_folder))
            state = PoolState(
                plan,
                Capacity(plan.limit, usage, on_release=on_release),
                {n: resources.enter_context(self.listener.subscribe([n])) for n in plan.lanes},
            )
            pool_workers = [
                PoolWorker(
                    self.database,
                    self.reader,
                    worker_id=f"{self.process}-{number}",
                    lanes=plan.lanes,
                    lock_seconds=self.lock_seconds,
                    heartbeat_seconds=self.heartbeat_seconds,
                    idle_seconds=self.idle_seconds,
                    budget_seconds=self.budget_seconds,
                    listener=self.listener,
                    state=state,
                )
                for number in range(1, plan.local_size + 1)
            ]
            state.workers = {
                worker.worker_id: WorkerActivity(Reservation(state.capacity))
                for worker in pool_workers
            }
            await self._report(state)
            stopping = asyncio.Event()
            background = [
                asyncio.create_task(coroutine)
                for coroutine in (
                    manager.PoolManager(self.database, self.process, plan).run(stopping),
                    self._report_periodically(state, stopping),
                    # Documents of dead workers are reclaimed even where no scheduler runs.
                    workers.sweep_periodically(self.database, stopping, seconds=SWEEP_SECONDS),
                )
            ]
            try:
                await workers.run_workers(pool_workers, stop)
            finally:
                stopping.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(UNREGISTER_SECONDS):
                        await asyncio.gather(*background, return_exceptions=True)
                        state.workers.clear()
                        await self._report(state)
                await concurrency.cancel_all(background)

    async def _report_periodically(self, state: PoolState, stop: asyncio.Event) -> None:
        seconds = min(REPORT_SECONDS, state.plan.interval_seconds / 4)
        while not stop.is_set():
            await self._report(state)
            await concurrency.wait(stop, seconds=seconds)

    async def _report(self, state: PoolState) -> None:
        """Report the workers and what they read; receive their lanes."""
        state.capacity.publish()
        for event in state.arrivals.values():
            event.clear()
        try:
            answer = await self.database.report_pool(
                process=self.process, lanes=state.plan.lanes, workers=list(state.make_rows())
            )
        except errors.DatabaseError as exc:
            # The workers keep their lanes.
            log.warning("pool_report_failed", process=self.process, error=str(exc))
            return
        state.waiting, state.reading_elsewhere = set(answer["waiting"]), answer["reading"]
        for worker_id, activity in state.workers.items():
            activity.lane = answer["lanes"].get(worker_id, activity.lane)


@dataclass(slots=True)
class WorkerActivity:
    """The lane assigned to a worker, what it reads since when, and what it has claimed next."""

    reservation: Reservation
    lane: str | None = None
    claim: Claim | None = None
    last_lane: str | None = None
    since: float = 0.0
    first_page_at: float | None = None
    next_claim: asyncio.Task[Claim | None] | None = None

    def start(self, claim: Claim) -> None:
        """Record that the worker reads a document from now on."""
        self.claim, self.last_lane, self.since = claim, claim.lane, time.monotonic()
        self.first_page_at = None
        self.reservation.confirm(claim.lane)

    def has_turn(self, now: float) -> bool:
        """Tell whether a document, of which a page was just saved, is read further.

        The turn begins with the first page, because fetching the file may take longer than a turn,
        and it lasts at least as long as the time to get there.
        """
        if self.first_page_at is None:
            self.first_page_at = now
        turn = max(TURN_SECONDS, self.first_page_at - self.since)
        return now - self.first_page_at < turn

    async def take_next_claim(self) -> Claim | None:
        """Wait for the claim that was begun during the last document, if any."""
        task, self.next_claim = self.next_claim, None
        if task is None:
            return None
        await asyncio.wait([task])
        return task.result() if task.exception() is None else None


@dataclass(slots=True)
class PoolState:
    """What the workers of a program know of each other, and of the pool by the last report.

    An event of `arrivals` is set when a document arrives in the lane.
    """

    plan: PoolPlan
    capacity: Capacity
    arrivals: Mapping[str, asyncio.Event]
    workers: dict[str, WorkerActivity] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    reading_elsewhere: Mapping[str, int] = field(default_factory=dict)

    def list_neglected(self, after: str | None) -> list[str]:
        """List the lanes that have work and too few workers, in turn: `after` is the last one."""
        lanes = self.plan.lanes
        turn = lanes.index(after) + 1 if after in lanes else 0
        return [
            lane
            for lane in lanes[turn:] + lanes[:turn]
            if (lane in self.waiting or self.arrivals[lane].is_set())
            and self.count_surplus(lane) < 0
        ]

    def count_surplus(self, lane: str) -> int:
        """Return how many more workers read in a lane than its minimum, which is at least one."""
        claims = [activity.claim for activity in self.workers.values()]
        reading = sum(claim is not None and claim.lane == lane for claim in claims)
        reading += self.reading_elsewhere.get(lane, 0)
        return reading - max(self.plan.minimums.get(lane, 1), 1)

    def record_empty(self, lanes: Collection[str]) -> None:
        """Record that a claim found no document in these lanes."""
        self.waiting.difference_update(lanes)
        for lane in lanes:
            self.arrivals[lane].clear()

    def make_rows(self) -> Iterator[dict[str, object]]:
        """Return the workers and what they read, as report_pool expects them."""
        for worker_id, activity in self.workers.items():
            claim = activity.claim
            reads = {"lane": claim.lane, "document_id": claim.id} if claim else {}
            yield {"worker_id": worker_id, **reads}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWorker(workers.Worker):
    """Serves neglected lanes, then its assigned lane, then all others.

    The assignment is looked up before each claim, so a change of lane interrupts no document.
    Capacity is reserved before a claim, so that no claimed document waits for it.
    """

    state: PoolState = field(repr=False)

    async def process_next(self, stop: asyncio.Event) -> bool:
        """Claim and process a document, if there is one and capacity for it."""
        activity = self.state.workers[self.worker_id]
        neglected = self.state.list_neglected(activity.last_lane)
        preferred = dict.fromkeys([*neglected, activity.lane, *self.lanes])
        lanes = [lane for lane in preferred if lane is not None and lane in self.lanes]
        with self.state.capacity.reserve(lanes, urgent=neglected) as activity.reservation:
            claim = await self._claim_one(activity.reservation.lanes)
            found = claim is not None
            while claim is not None:
                activity.start(claim)
                await self.process(claim, stop)
                claim = await activity.take_next_claim()
            activity.claim = None
        return found

    async def find_reason_to_yield(self, claim: Claim) -> str | None:
        """Claim a document of a neglected lane if there is one; it is read instead.

        Lanes that have to share a worker take turns, because each change costs some 100 ms.
        """
        activity = self.state.workers[self.worker_id]
        if activity.has_turn(time.monotonic()) and self.state.count_surplus(claim.lane) <= 0:
            return None
        neglected = self.state.list_neglected(claim.lane)
        others = [lane for lane in neglected if lane != claim.lane]
        lanes = self.state.capacity.list_fitting(others, activity.reservation)
        # A stop cancels the attempt, but not the claim: process_next() gives that document back.
        activity.next_claim = asyncio.create_task(self._claim_one(lanes))
        claimed = await asyncio.shield(activity.next_claim)
        return f"it yields to a document of lane {claimed.lane}" if claimed else None

    async def _claim_one(self, lanes: Sequence[str]) -> Claim | None:
        """Claim a document of the first of these lanes that has one."""
        claims = await self.claim_next(lanes=lanes) if lanes else []
        if not claims:
            self.state.record_empty(lanes)
        return claims[0] if claims else None
