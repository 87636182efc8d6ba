"""Simulate days of traffic with the pool, a fixed split and a simple algorithm."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden.pool import allocation, manager

if TYPE_CHECKING:
    from pagewarden.pool.plan import PoolPlan

Traffic = Sequence[tuple[float, str]]
"""Arrival time and lane of each document."""


@dataclass(slots=True)
class Worker:
    """A worker, its lane, and the lane of the document it is reading."""

    name: str
    lane: str
    lane_since: float = 0.0
    reading: str | None = None


@dataclass(slots=True)
class Result:
    """The result: time of the last completion, longest wait by lane, number of lane changes."""

    drained_at: float = 0.0
    waits: dict[str, float] = field(default_factory=dict)
    lane_changes: int = 0
    done: int = 0

    @property
    def longest_wait(self) -> float:
        """Return the longest wait of all lanes."""
        return max(self.waits.values(), default=0.0)


@dataclass(frozen=True, slots=True)
class Policy:
    """How lanes are assigned, and how idle workers find documents.

    `assign` sets the lane of every worker, once per interval; with None lanes are fixed. With
    `helps`, a worker without documents in its lane takes those of others. An idle worker polls
    every `poll_seconds`, or is notified if that is 0.
    """

    name: str
    helps: bool
    poll_seconds: float
    assign: Callable[[Simulation], None] | None


@dataclass(slots=True)
class Simulation:
    """Lanes, workers and the current time; `events` is a heap of future events."""

    plan: PoolPlan
    seconds_of: Mapping[str, float]
    policy: Policy
    leaderless: Sequence[tuple[float, float]]
    workers: list[Worker]
    queues: dict[str, deque[float]]
    result: Result = field(default_factory=Result)
    now: float = 0.0
    events: list[tuple[float, int, str, str | Worker | None]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)

    def backlog(self) -> dict[str, int]:
        """Count the queued documents by lane."""
        return {lane: len(queue) for lane, queue in self.queues.items()}

    def move(self, worker: Worker, lane: str) -> None:
        """Change the lane of a worker, from its next document on."""
        if worker.lane != lane:
            worker.lane, worker.lane_since = lane, self.now
            self.result.lane_changes += 1

    def schedule(self, at: float, event: str, target: str | Worker | None = None) -> None:
        """Add an event for a lane, a worker, or the leader."""
        heapq.heappush(self.events, (at, next(self._order), event, target))

    def step(self) -> None:
        """Process the next event."""
        self.now, _, event, target = heapq.heappop(self.events)
        if isinstance(target, str):
            self.queues[target].append(self.now)
        elif isinstance(target, Worker):
            self._finish_or_poll(target, is_done=event == "done")
        else:
            self._rebalance()
        if not self.policy.poll_seconds:
            self._notify_idle()

    def _rebalance(self) -> None:
        is_led = not any(begin <= self.now < end for begin, end in self.leaderless)
        if self.policy.assign and is_led:
            self.policy.assign(self)
        self.schedule(self.now + self.plan.interval_seconds, "rebalance")

    def _finish_or_poll(self, worker: Worker, *, is_done: bool) -> None:
        if is_done:
            worker.reading = None
            self.result.done += 1
            self.result.drained_at = self.now
        if worker.reading is None:
            self._start_next(worker)

    def _notify_idle(self) -> None:
        for worker in self.workers:
            if worker.reading is None and any(self.queues.values()):
                self._start_next(worker)

    def _start_next(self, worker: Worker) -> None:
        lane = self._next_lane(worker)
        if lane is None:
            if self.policy.poll_seconds:
                self.schedule(self.now + self.policy.poll_seconds, "poll", worker)
            return
        waited = self.now - self.queues[lane].popleft()
        self.result.waits[lane] = max(self.result.waits.get(lane, 0.0), waited)
        worker.reading = lane
        self.schedule(self.now + self.seconds_of[lane], "done", worker)

    def _next_lane(self, worker: Worker) -> str | None:
        order = [worker.lane]
        if self.policy.helps:
            order = [*self._lanes_below_minimum(), worker.lane, *self.plan.lanes]
        return next((lane for lane in order if self.queues[lane]), None)

    def _lanes_below_minimum(self) -> list[str]:
        reading = Counter(worker.reading for worker in self.workers)
        return [lane for lane, least in self.plan.minimums.items() if reading[lane] < least]


def simulate(
    policy: Policy,
    plan: PoolPlan,
    traffic: Traffic,
    seconds_of: Mapping[str, float],
    *,
    leaderless: Sequence[tuple[float, float]] = (),
) -> Result:
    """Simulate the traffic; `leaderless` has the periods without a leader."""
    # Start with the allocation for an empty queue.
    allocated = plan.allocate(dict.fromkeys(plan.lanes, 0), plan.size)
    lanes = [lane for lane, count in allocated.items() for _ in range(count)]
    workers = [Worker(f"{number:03}", lane) for number, lane in enumerate(lanes)]
    queues: dict[str, deque[float]] = {lane: deque() for lane in plan.lanes}
    simulation = Simulation(plan, seconds_of, policy, leaderless, workers, queues)
    for at, lane in traffic:
        simulation.schedule(at, "arrival", lane)
    simulation.schedule(0.0, "rebalance")
    for worker in workers:
        simulation.schedule(0.0, "poll", worker)
    while simulation.result.done < len(traffic):
        simulation.step()
    return simulation.result


# Policies ----------------------------------------------------------------------------------


def _assign_by_pool(simulation: Simulation) -> None:
    states = [
        allocation.WorkerState(w.name, w.lane, simulation.now - w.lane_since, w.reading is None)
        for w in simulation.workers
    ]
    assigned = manager.assign_group(simulation.plan, simulation.backlog(), states)
    for worker, state in zip(simulation.workers, assigned, strict=True):
        simulation.move(worker, state.lane or worker.lane)


def _assign_by_target(simulation: Simulation) -> None:
    """Move idle workers towards the current target only."""
    target = simulation.plan.allocate(simulation.backlog(), len(simulation.workers))
    for worker in simulation.workers:
        counts = {lane: sum(w.lane == lane for w in simulation.workers) for lane in target}
        short = [lane for lane in target if counts[lane] < target[lane]]
        if short and worker.reading is None and counts[worker.lane] > target[worker.lane]:
            simulation.move(worker, short[0])


FIXED = Policy("fixed split", helps=False, poll_seconds=5.0, assign=None)
SIMPLE = Policy("simple algorithm", helps=False, poll_seconds=5.0, assign=_assign_by_target)
POOL = Policy("pool", helps=True, poll_seconds=0.0, assign=_assign_by_pool)


# Traffic ------------------------------------------------------------------------------------------
# Scenarios: rushes, bursts, a lane that could starve, and whole days.


SECONDS_OF: Mapping[str, float] = {"index": 30.0, "acte": 20.0}
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Named traffic; in a rush, one lane has nearly all documents from `start` on."""

    name: str
    traffic: Traffic
    is_rush: bool = False
    start: float = 0.0
    leaderless: Sequence[tuple[float, float]] = field(default=())


def make_scenarios(days: int = 5) -> Iterator[Scenario]:
    """Generate the scenarios, always the same ones."""
    index_rush = _merge(_spread(0, 900, index=10, acte=10), _spread(600, 900, index=600, acte=10))
    acte_rush = _merge(_spread(0, 900, index=10, acte=10), _spread(600, 900, index=10, acte=900))
    yield Scenario("morning, index rush", index_rush, is_rush=True, start=600)
    yield Scenario("afternoon, acte rush", acte_rush, is_rush=True, start=600)
    dead = [(590.0, 720.0)]
    yield Scenario("index rush, leader dies", index_rush, is_rush=True, start=600, leaderless=dead)
    bursts = [
        _spread(n * 20 * MINUTE, n * 20 * MINUTE + 30, **{"index" if n % 2 else "acte": 150})
        for n in range(9)
    ]
    yield Scenario("alternating bursts", _merge(*bursts))
    yield Scenario("continuous index, few actes", _spread(0, 4 * HOUR, index=6500, acte=60))
    yield Scenario(f"{days} days", _merge(*(_make_day(n * DAY) for n in range(days))))


def _make_day(begin: float) -> Traffic:
    """Index documents in the morning, actes in the afternoon, little at night."""
    return _merge(
        _spread(begin, begin + DAY, index=300, acte=300),
        _spread(begin + 8 * HOUR, begin + 10 * HOUR, index=4000, acte=200),
        _spread(begin + 14 * HOUR, begin + 17 * HOUR, index=200, acte=7000),
    )


def _spread(begin: float, end: float, **counts: int) -> Traffic:
    """Spread these numbers of documents over random times."""
    rng = random.Random(f"{begin} {end} {counts}")  # noqa: S311  # traffic, no secrets
    return sorted(
        (rng.uniform(begin, end), lane) for lane, count in counts.items() for _ in range(count)
    )


def _merge(*parts: Traffic) -> Traffic:
    return sorted(entry for part in parts for entry in part)
