"""Run rounds of all contestants, then measure the time of a claim against the backlog."""

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


# Keeps every worker busy at any batch size.
_WINDOW_BATCHES = 4
_MIN_WINDOW = 50

# Maximum number of warm-ups; they end when every worker has completed a job.
_MAX_WARM_UPS = 50

_UNLIMITED = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of the rounds, the same for all contestants.

    A round has three phases: a warm-up; a saturated phase, in which producers enqueue as fast as
    the workers complete (jobs/s); a paced phase of `rate` jobs per second (latency).
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
        """Yield batch size and contestant of every round; the order of the contestants rotates."""
        for batch in self.batches:
            for repetition in range(self.repeat):
                first = repetition % len(names)
                for name in (*names[first:], *names[:first]):
                    yield batch, name

    def warm_up_tasks(self, batch: int) -> list[load.ProducerTask]:
        """Return tasks that prepare all statements and fill all caches."""
        jobs = _MIN_WINDOW + 2 * batch
        return [load.ProducerTask(jobs, self.seconds, _UNLIMITED)] * self.producers

    def saturating_tasks(self, batch: int) -> list[load.ProducerTask]:
        """Return tasks that keep a few batches queued for each worker, so that none is idle."""
        window = self.workers * max(_WINDOW_BATCHES * batch, _MIN_WINDOW)
        task = load.ProducerTask(self.jobs // self.producers, self.seconds, window)
        return [task] * self.producers

    def paced_tasks(self, batch: int) -> list[load.ProducerTask]:
        """Return tasks that send batches at even intervals, from alternating producers."""
        interval = batch * self.producers / self.rate
        seconds = max(self.paced_seconds, interval)
        return [
            load.ProducerTask(
                self.jobs, seconds, _UNLIMITED, interval * number / self.producers, interval
            )
            for number in range(self.producers)
        ]


QUICK = Plan(batches=(10,), workers=2, producers=1, seconds=0.2, paced_seconds=0.2, repeat=1)


@dataclass(frozen=True, slots=True)
class Sample:
    """The result of one round.

    Latency runs from the call that enqueues a job to the commit that completes it.
    `generator_cores` is the CPU time per second of all producers and workers in the saturated
    phase, `busiest_process` the maximum of one of them. `problem` is why the round was discarded.
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
async def open_templates(
    url: str, names: Sequence[str], announce: Callable[[str], None]
) -> AsyncIterator[None]:
    """Create a template database for each contestant; drop them at the end."""
    try:
        for name in names:
            announce(f"{name}: preparing")
            await databases.make_template(url, name, contestants.get(name).prepare)
        yield
    finally:
        for name in names:
            await databases.drop(url, name)


async def run_rounds(
    url: str, plan: Plan, names: Sequence[str], announce: Callable[[str], None]
) -> list[Sample]:
    """Run all rounds; call `announce` before each."""
    samples = []
    for batch, name in plan.rounds(names):
        announce(f"{name}, batch {batch}")
        samples.append(await run_round(url, plan, name, batch))
    return samples


async def run_round(url: str, plan: Plan, name: str, batch: int) -> Sample:
    """Run one round in a new database, then count the jobs and results in it."""
    copy = await databases.copy_template(url, name)
    try:
        saturated, paced, total = await _run_phases(copy, plan, name, batch)
    except base.RoundFailedError as exc:
        return Sample(name, batch, problem=str(exc))
    tally = await contestants.get(name).tally(copy)
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
    """Return the value that this share of the sorted, non-empty values does not exceed."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


async def _run_phases(
    url: str, plan: Plan, name: str, batch: int
) -> tuple[load.Phase, load.Phase, int]:
    """Run the phases of one round; return both measured phases and the total number of jobs."""
    total = 0
    async with load.start_generator(
        name, url, batch=batch, workers=plan.workers, producers=plan.producers
    ) as generator:
        for _ in range(_MAX_WARM_UPS):
            total += (await generator.run_phase(plan.warm_up_tasks(batch))).jobs
            if min(generator.count_completed()) > 0:
                break
        else:
            raise base.RoundFailedError("one of the workers never got a job")
        saturated = await generator.run_phase(plan.saturating_tasks(batch))
        paced = await generator.run_phase(plan.paced_tasks(batch))
    return saturated, paced, total + saturated.jobs + paced.jobs


# Claims against backlog ---------------------------------------------------------------------------
# The time of a claim with a large backlog, against the time with a small one.


# After this number of claims as many documents are added, so that the backlog stays constant.
_REFILL = 250

_WARM_UP_CLAIMS = 20

_CREATE_CASE = "insert into public.cases (name, kind) values ('Backlog', 'client')"

# Runs as the owner of the table: a million documents through the RPC would take longer than the
# rest of the benchmark.
_FILL = """
insert into public.documents (case_id, name, dropbox_path, lane, ocr_status, turn)
select c.id, 'scan-' || n || '.png', '/inbox/scan-' || n || '.png', 'image', 'queued', n
from public.cases as c, generate_series(%s::bigint, %s::bigint) as n
"""

_CLAIM = "select * from public.claim_documents('bench', array['image'], 1, 3600)"


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """The backlogs to compare, and the number of claims that are measured at each."""

    backlogs: Sequence[int] = (1_000, 1_000_000)
    claims: int = 2_000


QUICK_CLAIMS = ClaimPlan(backlogs=(1_000, 5_000), claims=100)


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """The time of claims of one document at a backlog, including the commit."""

    backlog: int
    claims: int
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class Backlog:
    """A database with a backlog of this size, and the times measured in it."""

    size: int
    owner: psycopg.AsyncConnection
    worker: psycopg.AsyncConnection
    filled: int = 0
    milliseconds: list[float] = field(default_factory=list)

    async def fill(self, count: int) -> None:
        """Add documents to the end of the queue."""
        await self.owner.execute(_FILL, (self.filled + 1, self.filled + count))
        self.filled += count

    async def claim(self) -> None:
        """Claim one document, which stays in processing, and record the time."""
        start = time.perf_counter()
        cursor = await self.worker.execute(_CLAIM)
        self.milliseconds.append((time.perf_counter() - start) * 1000)
        if cursor.rowcount != 1:
            raise base.RoundFailedError(f"a claim returned {cursor.rowcount} documents")

    def summarize(self) -> ClaimTimes:
        """Return the percentiles."""
        ordered = sorted(self.milliseconds)
        p50, p99 = (percentile(ordered, share) for share in (0.5, 0.99))
        return ClaimTimes(self.size, len(ordered), p50, p99)


async def measure_claims(
    url: str, plan: ClaimPlan, announce: Callable[[str], None]
) -> list[ClaimTimes]:
    """Alternate between the backlogs, so that noise affects all of them equally.

    The template of our own contestant must exist.
    """
    names = [f"backlog_{size}" for size in plan.backlogs]
    try:
        async with AsyncExitStack() as stack:
            backlogs = []
            for size, name in zip(plan.backlogs, names, strict=True):
                announce(f"backlog of {size:,}: filling")
                copy = await databases.copy_template(url, contestants.OURS, name)
                backlogs.append(await _open_backlog(copy, size, stack))
            announce("claiming one by one")
            await _warm_up(url, backlogs)
            await _claim_in_turn(backlogs, plan.claims)
            return [backlog.summarize() for backlog in backlogs]
    finally:
        for name in names:
            await databases.drop(url, name)


async def _open_backlog(url: str, size: int, stack: AsyncExitStack) -> Backlog:
    owner = await stack.enter_async_context(await databases.connect(url))
    worker = await stack.enter_async_context(await databases.connect(url))
    await worker.execute("set role pagewarden_worker")
    await owner.execute(_CREATE_CASE)
    backlog = Backlog(size, owner, worker)
    await backlog.fill(size)
    await owner.execute("vacuum analyze public.documents")
    return backlog


async def _warm_up(url: str, backlogs: Sequence[Backlog]) -> None:
    """Force a checkpoint after filling, and prepare all statements."""
    async with await databases.connect(url) as connection:
        await connection.execute("checkpoint")
    for backlog in backlogs:
        for _ in range(_WARM_UP_CLAIMS):
            await backlog.claim()
        backlog.milliseconds.clear()


async def _claim_in_turn(backlogs: Sequence[Backlog], claims: int) -> None:
    for number in range(claims):
        for backlog in backlogs:
            if number % _REFILL == 0:
                await backlog.fill(_REFILL)
            await backlog.claim()
