"""Run every contestant in turn, several times; then measure claims against the backlog."""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.queue import contestants, databases, load
from benchmarks.queue.contestants import base

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    import psycopg


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
            await databases.make_template(url, name, contestants.get(name).prepare)
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
    except base.RoundFailedError as exc:
        return Sample(name, batch, problem=str(exc))
    tally = await contestants.get(name).tally(fresh)
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


async def _drive(url: str, plan: Plan, name: str, batch: int) -> tuple[load.Phase, load.Phase, int]:
    """Give the orders of one round; returns both measured phases and how many jobs there were."""
    total = 0
    async with load.start_crew(
        name, url, batch=batch, workers=plan.workers, producers=plan.producers
    ) as team:
        for _ in range(_WARM_UPS):
            total += (await team.perform(plan.warm_up(batch))).jobs
            if min(team.completed()) > 0:
                break
        else:
            raise base.RoundFailedError("one of the workers never got a job")
        saturated = await team.perform(plan.saturating(batch))
        paced = await team.perform(plan.paced(batch))
    return saturated, paced, total + saturated.jobs + paced.jobs


# Claims against backlog ---------------------------------------------------------------------------
# How long one claim takes when much is waiting, against how long when little is.


# After so many claims the same number of documents is added, so that the backlog stays as it is.
_SLICE = 250

_WARM_UP_CLAIMS = 20

_CREATE_CASE = "insert into public.cases (name, kind) values ('Backlog', 'client')"

# By the owner of the table: a million documents through the RPC would take longer than all the
# rest of the benchmark.
_FILL = """
insert into public.documents (case_id, name, dropbox_path, lane, ocr_status, turn)
select c.id, 'scan-' || n || '.png', '/inbox/scan-' || n || '.png', 'image', 'queued', n
from public.cases as c, generate_series(%s::bigint, %s::bigint) as n
"""

_CLAIM = "select * from public.claim_documents('bench', array['image'], 1, 3600)"


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """How many documents wait, and how many claims are measured at each of these backlogs."""

    backlogs: Sequence[int] = (1_000, 1_000_000)
    claims: int = 2_000


QUICK_CLAIMS = ClaimPlan(backlogs=(1_000, 5_000), claims=100)


@dataclass(frozen=True, slots=True)
class Claims:
    """How long claims of one document took with so many waiting, the commit included."""

    backlog: int
    claims: int
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class Backlog:
    """A database with so many documents waiting, and what was measured in it."""

    size: int
    owner: psycopg.AsyncConnection
    worker: psycopg.AsyncConnection
    filled: int = 0
    milliseconds: list[float] = field(default_factory=list)

    async def fill(self, count: int) -> None:
        """Put more documents into the queue, behind all others."""
        await self.owner.execute(_FILL, (self.filled + 1, self.filled + count))
        self.filled += count

    async def claim(self) -> None:
        """Claim one document and note how long it took; it stays in processing."""
        begun = time.perf_counter()
        cursor = await self.worker.execute(_CLAIM)
        self.milliseconds.append((time.perf_counter() - begun) * 1000)
        if cursor.rowcount != 1:
            raise base.RoundFailedError(f"a claim returned {cursor.rowcount} documents")

    def result(self) -> Claims:
        """Sum up."""
        ordered = sorted(self.milliseconds)
        p50, p99 = (percentile(ordered, share) for share in (0.5, 0.99))
        return Claims(self.size, len(ordered), p50, p99)


async def measure_claims(
    url: str, plan: ClaimPlan, announce: Callable[[str], None]
) -> list[Claims]:
    """Claim from each backlog in turn, so that noise falls on all alike.

    The template of our own contestant must be there.
    """
    names = [f"backlog_{size}" for size in plan.backlogs]
    try:
        async with AsyncExitStack() as stack:
            backlogs = []
            for size, name in zip(plan.backlogs, names, strict=True):
                announce(f"backlog of {size:,}: filling")
                fresh = await databases.make_fresh(url, contestants.OURS, name)
                backlogs.append(await _open(fresh, size, stack))
            announce("claiming one by one")
            await _settle(url, backlogs)
            await _claim(backlogs, plan.claims)
            return [backlog.result() for backlog in backlogs]
    finally:
        for name in names:
            await databases.drop(url, name)


async def _open(url: str, size: int, stack: AsyncExitStack) -> Backlog:
    owner = await stack.enter_async_context(await databases.connect(url))
    worker = await stack.enter_async_context(await databases.connect(url))
    await worker.execute("set role pagewarden_worker")
    await owner.execute(_CREATE_CASE)
    backlog = Backlog(size, owner, worker)
    await backlog.fill(size)
    await owner.execute("vacuum analyze public.documents")
    return backlog


async def _settle(url: str, backlogs: Sequence[Backlog]) -> None:
    """Write out what filling has left in memory, and have every statement prepared."""
    async with await databases.connect(url) as connection:
        await connection.execute("checkpoint")
    for backlog in backlogs:
        for _ in range(_WARM_UP_CLAIMS):
            await backlog.claim()
        backlog.milliseconds.clear()


async def _claim(backlogs: Sequence[Backlog], claims: int) -> None:
    for number in range(claims):
        for backlog in backlogs:
            if number % _SLICE == 0:
                await backlog.fill(_SLICE)
            await backlog.claim()
