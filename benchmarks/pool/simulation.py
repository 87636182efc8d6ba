"""Days of traffic in seconds: the pool, a fixed split and the plain algorithm, by one clock."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pagewarden.pool import manager, moves, plans

Traffic = Sequence[tuple[float, str]]
"""When a document comes, and into which lane."""


@dataclass(slots=True)
class Worker:
    """A worker: its lane, since when, and the lane of what it reads."""

    name: str
    lane: str
    since: float = 0.0
    reads: str | None = None


@dataclass(slots=True)
class Result:
    """What came of it: when the last document was done, the longest waits, changes of lane."""

    drained: float = 0.0
    waits: dict[str, float] = field(default_factory=dict)
    switches: int = 0
    done: int = 0

    @property
    def longest_wait(self) -> float:
        """Give the longest of them all."""
        return max(self.waits.values(), default=0.0)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a pool behaves.

    share gives every worker its lane, each interval; without it lanes are fixed. An idle worker
    looks again after poll_seconds, or at once when poll_seconds is 0.
    """

    name: str
    helps: bool
    poll_seconds: float
    share: Callable[[World], None] | None


@dataclass(slots=True)
class World:
    """The lanes, the workers and the time; agenda has what will happen, the next thing first."""

    plan: plans.Plan
    seconds_of: Mapping[str, float]
    policy: Policy
    leaderless: Sequence[tuple[float, float]]
    workers: list[Worker]
    queues: dict[str, deque[float]]
    result: Result = field(default_factory=Result)
    now: float = 0.0
    agenda: list[tuple[float, int, str, str | Worker | None]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)

    def backlog(self) -> dict[str, int]:
        """Count what waits."""
        return {lane: len(queue) for lane, queue in self.queues.items()}

    def move(self, worker: Worker, lane: str) -> None:
        """Have a worker serve another lane from its next document on."""
        if worker.lane != lane:
            worker.lane, worker.since = lane, self.now
            self.result.switches += 1

    def note(self, when: float, what: str, whom: str | Worker | None = None) -> None:
        """Put something on the agenda."""
        heapq.heappush(self.agenda, (when, next(self._order), what, whom))

    def step(self) -> None:
        """Let the next thing happen."""
        self.now, _, what, whom = heapq.heappop(self.agenda)
        if isinstance(whom, str):
            self.queues[whom].append(self.now)
        elif isinstance(whom, Worker):
            self._free(whom, is_done=what == "done")
        else:
            self._look()
        if not self.policy.poll_seconds:
            self._wake()

    def _look(self) -> None:
        is_led = not any(begin <= self.now < end for begin, end in self.leaderless)
        if self.policy.share and is_led:
            self.policy.share(self)
        self.note(self.now + self.plan.interval_seconds, "look")

    def _free(self, worker: Worker, *, is_done: bool) -> None:
        if is_done:
            worker.reads = None
            self.result.done += 1
            self.result.drained = self.now
        if worker.reads is None:
            self._serve(worker)

    def _wake(self) -> None:
        for worker in self.workers:
            if worker.reads is None and any(self.queues.values()):
                self._serve(worker)

    def _serve(self, worker: Worker) -> None:
        lane = self._next_lane(worker)
        if lane is None:
            if self.policy.poll_seconds:
                self.note(self.now + self.policy.poll_seconds, "poll", worker)
            return
        waited = self.now - self.queues[lane].popleft()
        self.result.waits[lane] = max(self.result.waits.get(lane, 0.0), waited)
        worker.reads = lane
        self.note(self.now + self.seconds_of[lane], "done", worker)

    def _next_lane(self, worker: Worker) -> str | None:
        order = [worker.lane]
        if self.policy.helps:
            order = [*self._short(), worker.lane, *self.plan.lanes]
        return next((lane for lane in order if self.queues[lane]), None)

    def _short(self) -> list[str]:
        reading = Counter(worker.reads for worker in self.workers)
        return [lane for lane, least in self.plan.minimums.items() if reading[lane] < least]


def simulate(
    policy: Policy,
    plan: plans.Plan,
    traffic: Traffic,
    seconds_of: Mapping[str, float],
    *,
    leaderless: Sequence[tuple[float, float]] = (),
) -> Result:
    """Let the traffic come; leaderless are the times in which nobody leads."""
    # It begins with what an empty queue gets.
    given = plan.allocate({}, plan.size)
    lanes = [lane for lane, count in given.items() for _ in range(count)]
    workers = [Worker(f"{number:03}", lane) for number, lane in enumerate(lanes)]
    queues: dict[str, deque[float]] = {lane: deque() for lane in plan.lanes}
    world = World(plan, seconds_of, policy, leaderless, workers, queues)
    for when, lane in traffic:
        world.note(when, "came", lane)
    world.note(0.0, "look")
    for worker in workers:
        world.note(0.0, "poll", worker)
    while world.result.done < len(traffic):
        world.step()
    return world.result


# Policies ----------------------------------------------------------------------------------


def _ours(world: World) -> None:
    seen = [
        moves.Worker(w.name, w.lane, world.now - w.since, w.reads is None) for w in world.workers
    ]
    for worker, told in zip(
        world.workers, manager.assigned(world.plan, world.backlog(), seen), strict=True
    ):
        world.move(worker, told.lane or worker.lane)


def _plain(world: World) -> None:
    """Move whoever is idle, by the target of this moment alone."""
    target = world.plan.allocate(world.backlog(), len(world.workers))
    for worker in world.workers:
        counts = {lane: sum(w.lane == lane for w in world.workers) for lane in target}
        short = [lane for lane in target if counts[lane] < target[lane]]
        if short and worker.reads is None and counts[worker.lane] > target[worker.lane]:
            world.move(worker, short[0])


FIXED = Policy("fixed split", helps=False, poll_seconds=5.0, share=None)
PLAIN = Policy("plain algorithm", helps=False, poll_seconds=5.0, share=_plain)
POOL = Policy("pool", helps=True, poll_seconds=0.0, share=_ours)


# Traffic ------------------------------------------------------------------------------------------
# Traffic for the simulation: rushes, bursts, a lane that could starve, and whole days.


SECONDS_OF: Mapping[str, float] = {"index": 30.0, "acte": 20.0}
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Traffic with a name; in a rush, from its begin on, one lane has nearly all of the work."""

    name: str
    traffic: Traffic
    is_rush: bool = False
    begins: float = 0.0
    leaderless: Sequence[tuple[float, float]] = field(default=())


def scenarios(days: int = 5) -> Iterator[Scenario]:
    """Give all of them, always the same."""
    index_rush = _merged(_even(0, 900, index=10, acte=10), _even(600, 900, index=600, acte=10))
    acte_rush = _merged(_even(0, 900, index=10, acte=10), _even(600, 900, index=10, acte=900))
    yield Scenario("morning, index rush", index_rush, is_rush=True, begins=600)
    yield Scenario("afternoon, acte rush", acte_rush, is_rush=True, begins=600)
    dead = [(590.0, 720.0)]
    yield Scenario("index rush, leader dies", index_rush, is_rush=True, begins=600, leaderless=dead)
    bursts = [
        _even(n * 20 * MINUTE, n * 20 * MINUTE + 30, **{"index" if n % 2 else "acte": 150})
        for n in range(9)
    ]
    yield Scenario("bursts, now here, now there", _merged(*bursts))
    yield Scenario("index for ever, few actes", _even(0, 4 * HOUR, index=6500, acte=60))
    yield Scenario(f"{days} days", _merged(*(_day(n * DAY) for n in range(days))))


def _day(begin: float) -> Traffic:
    """Index documents in the morning, actes in the afternoon, little at night."""
    return _merged(
        _even(begin, begin + DAY, index=300, acte=300),
        _even(begin + 8 * HOUR, begin + 10 * HOUR, index=4000, acte=200),
        _even(begin + 14 * HOUR, begin + 17 * HOUR, index=200, acte=7000),
    )


def _even(begin: float, end: float, **counts: int) -> Traffic:
    """Let so many come at random times."""
    chance = random.Random(f"{begin} {end} {counts}")  # noqa: S311  # traffic, no secrets
    return sorted(
        (chance.uniform(begin, end), lane) for lane, count in counts.items() for _ in range(count)
    )


def _merged(*parts: Traffic) -> Traffic:
    return sorted(entry for part in parts for entry in part)
