"""Run every contestant in turn, several times, and measure."""

from __future__ import annotations

import statistics
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagewarden.bench.queue import contestant, crew, databases, load, peers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

# Enough to fill every worker's hands a few times over, whatever the batch size.
_WINDOW_BATCHES = 4
_WINDOW_LEAST = 50

# Until every worker has had a job.
_WARM_UPS = 50

_UNLIMITED = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything; the same for all contestants.

    A round is a warm-up, then producers that enqueue as fast as the workers keep up with (jobs/s),
    then producers that send rate jobs a second (latency).
    """

    batches: Sequence[int] = (1, 10, 100)
    workers: int = 4
    producers: int = 2
    jobs: int = 100_000
    seconds: float = 4.0
    rate: float = 100.0
    paced_seconds: float = 4.0
    repeat: int = 3

    def rounds(self, names: Sequence[str]) -> Iterator[tuple[int, str]]:
        """List batch size and contestant of every round, so that nobody always goes first."""
        for batch in self.batches:
            for turn in range(self.repeat):
                first = turn % len(names)
                for name in (*names[first:], *names[:first]):
                    yield batch, name

    def warm_up(self, batch: int) -> list[load.Order]:
        """Have every statement prepared and every cache filled."""
        jobs = _WINDOW_LEAST + 2 * batch
        return [load.Order(jobs, self.seconds, _UNLIMITED)] * self.producers

    def saturating(self, batch: int) -> list[load.Order]:
        """Keep some batches waiting for each worker, so that none is ever idle."""
        window = self.workers * max(_WINDOW_BATCHES * batch, _WINDOW_LEAST)
        order = load.Order(self.jobs // self.producers, self.seconds, window)
        return [order] * self.producers

    def paced(self, batch: int) -> list[load.Order]:
        """Send a batch at even intervals, the producers taking turns."""
        interval = batch * self.producers / self.rate
        seconds = max(self.paced_seconds, interval)
        return [
            load.Order(self.jobs, seconds, _UNLIMITED, interval * seat / self.producers, interval)
            for seat in range(self.producers)
        ]


QUICK = Plan(batches=(10,), workers=2, producers=1, seconds=0.2, paced_seconds=0.2, repeat=1)


@dataclass(frozen=True, slots=True)
class Sample:
    """What one round showed.

    Latency is from the call that enqueues to the commit that completes. generator_cores is the
    CPU that producers and workers used while jobs/s was measured, busiest_process the share of
    one core of the busiest of them. problem says why the round does not count.
    """

    contestant: str
    batch: int
    jobs: int = 0
    jobs_per_second: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    generator_cores: float = 0.0
    busiest_process: float = 0.0
    latencies_ms: list[float] = field(default_factory=list, repr=False)
    problem: str | None = None


@asynccontextmanager
async def prepared(
    url: str, names: Sequence[str], announce: Callable[[str], None]
) -> AsyncIterator[None]:
    """Have a template for each contestant as long as the block lasts."""
    try:
        for name in names:
            announce(f"{name}: preparing")
            await databases.make_template(url, name, peers.get(name).prepare)
        yield
    finally:
        for name in names:
            await databases.drop(url, name)


async def hold(
    url: str, plan: Plan, names: Sequence[str], announce: Callable[[str], None]
) -> list[Sample]:
    """Run all rounds; announce is told of each before it begins."""
    samples = []
    for batch, name in plan.rounds(names):
        announce(f"{name}, batch {batch}")
        samples.append(await run(url, plan, name, batch))
    return samples


async def run(url: str, plan: Plan, name: str, batch: int) -> Sample:
    """Run one round in a fresh database and count afterwards what is in it."""
    fresh = await databases.make_fresh(url, name)
    try:
        saturated, paced, total = await _drive(fresh, plan, name, batch)
    except contestant.RoundFailedError as exc:
        return Sample(name, batch, problem=str(exc))
    tally = await peers.get(name).tally(fresh)
    latencies = sorted(seconds * 1000 for seconds in paced.latencies)
    return Sample(
        contestant=name,
        batch=batch,
        jobs=saturated.jobs,
        jobs_per_second=saturated.jobs / saturated.seconds,
        p50_ms=statistics.median(latencies),
        p99_ms=percentile(latencies, 0.99),
        generator_cores=sum(saturated.cpu_shares),
        busiest_process=max(saturated.cpu_shares),
        latencies_ms=latencies,
        problem=tally.problem(total),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Take the value that this share of the (sorted, not empty) values does not exceed."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


async def _drive(url: str, plan: Plan, name: str, batch: int) -> tuple[crew.Phase, crew.Phase, int]:
    """Give the orders of one round; returns both measured phases and how many jobs there were."""
    total = 0
    async with crew.assembled(
        name, url, batch=batch, workers=plan.workers, producers=plan.producers
    ) as team:
        for _ in range(_WARM_UPS):
            total += (await team.perform(plan.warm_up(batch))).jobs
            if min(team.completed()) > 0:
                break
        else:
            raise contestant.RoundFailedError("one of the workers never got a job")
        saturated = await team.perform(plan.saturating(batch))
        paced = await team.perform(plan.paced(batch))
    return saturated, paced, total + saturated.jobs + paced.jobs
