"""A chaos run: warm up, inject faults, let it settle, check; and its figures."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.chaos import faults, invariants, traffic
from benchmarks.chaos import plan as plans
from benchmarks.chaos.documents import DocumentGenerator
from benchmarks.chaos.system import ChaosSystem, open_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from pathlib import Path

    from benchmarks.chaos import event_log


_POLL_SECONDS = 0.25
_WARM_UP_DOCUMENTS = 20
_WARM_UP_SECONDS = 60.0
_SET_LANES = """
update public.lanes set failed_pages_allowed = 0, backoff_seconds = %s, probe_seconds = %s
returning lane
"""
_COUNT_OPEN = """
select count(*) as count from public.documents
where ocr_status not in ('completed', 'dead_letter', 'failed', 'cancelled')
"""
_DEAD_LETTERS = """
select l.id::text, d.name from public.ocr_dead_letter as l
join public.documents as d on d.id = l.document_id where d.ocr_status = 'dead_letter'
"""
_FAILED_JOBS = "select id::text from public.check_jobs where outcome = 'FAILED'"
_PAGES = """
select count(*) as pages, coalesce(sum(p.times - 1), 0)::integer as again
from chaos.pages as p
"""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run; `settled_seconds` is None if it was aborted at a violation."""

    plan: plans.Plan
    violations: list[invariants.Violation]
    seconds: float
    settled_seconds: float | None
    documents: int
    jobs: int
    statuses: dict[str, int]
    disturbances: dict[str, int]
    acts: dict[str, int]
    answers: dict[str, int]
    starts: dict[str, int]
    ended_by_themselves: list[str]
    has_disk: bool
    looks: int
    quiet_per_second: float
    fire_per_second: float
    recoveries: Distribution
    recoveries_in_outages: Distribution
    work: ClaimStatistics

    @property
    def share(self) -> float:
        """Return the throughput with faults as a share of that without."""
        return self.fire_per_second / self.quiet_per_second if self.quiet_per_second else 0.0


@dataclass(slots=True)
class Run:
    """The parts of a run."""

    system: ChaosSystem
    queue: traffic.QueueMonitor
    monitor: invariants.InvariantMonitor
    source: traffic.DocumentSource
    users: traffic.Users

    async def inject_faults(self, seconds: float) -> tuple[float, float]:
        """Inject faults for this time or until a violation; return the begin and the end."""
        stop = asyncio.Event()
        begin = time.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(faults.FaultInjector(self.system, self.users).run(stop))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.wait_for_violation()
            end = time.time()
            stop.set()
        return begin, end

    async def break_build(self, name: str) -> None:
        """Remove a safeguard from the database; see benchmarks.chaos.plan."""
        async with await self.system.connect() as conn:
            await plans.break_build(conn, name)

    async def wait_for_violation(self) -> None:
        """Wait until the monitor finds a violation."""
        while not await self.monitor.find_violations():  # noqa: ASYNC110  # other processes
            await asyncio.sleep(self.system.plan.lock_seconds / 4)

    async def settle(self) -> float | None:
        """Let all documents end, and retry valid ones; return the seconds, None on timeout."""
        begin = time.monotonic()
        self.source.is_open = False
        for lane in plans.LANES:
            await self.users.resume(lane)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.system.plan.settle_seconds):
                while not await self._is_settled():  # noqa: ASYNC110  # other processes
                    await asyncio.sleep(_POLL_SECONDS)
                return time.monotonic() - begin
        return None

    async def _is_settled(self) -> bool:
        """Requeue valid documents that were given up; return whether all have ended."""
        files = self.source.submissions.files
        letters = [row for row in await self.system.rows(_DEAD_LETTERS) if files[row["name"]].texts]
        for row in letters:
            await self.users.resolve(row["id"], row["name"], "requeue")
        failed = [row["id"] for row in await self.system.rows(_FAILED_JOBS)]
        jobs = [job for job in failed if all(files[n].texts for n in self._image_names(job))]
        for job in jobs:
            await self.users.rerun_job(job)
        ((left,),) = [row.values() for row in await self.system.rows(_COUNT_OPEN)]
        return not (letters or jobs or left) and self.source.is_done

    def _image_names(self, job: str) -> Sequence[str]:
        return self.source.submissions.jobs.get(job, ())


@contextlib.asynccontextmanager
async def open_run(plan: plans.Plan, logs: Path) -> AsyncIterator[Run]:
    """Start a system with its monitor and its traffic."""
    async with open_system(plan, logs) as system:
        async with await system.connect() as conn:
            await invariants.install(conn)
        monitor = invariants.InvariantMonitor(system)
        await system.rows(_SET_LANES, plan.backoff_seconds, plan.probe_seconds)
        queue = traffic.QueueMonitor(system)
        source = traffic.DocumentSource(system, DocumentGenerator(plan), queue)
        async with (
            traffic.sign_in_users(system, source.submissions) as users,
            asyncio.TaskGroup() as group,
        ):
            works = (queue.run(), monitor.watch(), source.run())
            tasks = [group.create_task(work) for work in works]
            yield Run(system, queue, monitor, source, users)
            for task in tasks:
                task.cancel()


async def execute(plan: plans.Plan, logs: Path, announce: Callable[[str], None]) -> Result:
    """Execute a complete run."""
    async with open_run(plan, logs) as run:
        announce("system is up, uploading")
        await _warm_up(run)
        quiet = time.time(), time.time() + plan.quiet_seconds
        await asyncio.sleep(plan.quiet_seconds)
        if plan.broken is not None:
            await run.break_build(plan.broken)
        announce(f"injecting faults for {plan.fire_seconds:.0f} s")
        faulty = await run.inject_faults(plan.fire_seconds)
        violations = await run.monitor.find_violations()
        settled = None
        if not violations:
            announce("settling")
            settled = await run.settle()
        return await conclude(run, quiet, faulty, settled)


async def _warm_up(run: Run) -> None:
    """Wait until the first documents are completed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_WARM_UP_SECONDS):
            while run.queue.completed < _WARM_UP_DOCUMENTS:  # noqa: ASYNC110  # other processes
                await asyncio.sleep(_POLL_SECONDS)


async def conclude(
    run: Run, quiet: tuple[float, float], faulty: tuple[float, float], settled: float | None
) -> Result:
    """Check the final state, and compute the figures."""
    plan, journal, submissions = run.system.plan, run.system.journal, run.source.submissions
    await run.monitor.check()
    events = await run.monitor.load_events()
    claims = list(invariants.pair_claims(events))
    regular, in_outages = measure_recoveries(
        claims, journal, plan.lock_seconds + plan.sweep_seconds
    )
    violations = await run.monitor.find_violations()
    if settled is not None:
        final_check = invariants.FinalCheck(run.system, submissions, run.users)
        violations += await final_check.run(events)
    elif not violations:
        violations.append(invariants.Violation("all documents end", None, None))
    recovery = Distribution.of(regular)
    if recovery.p99 > plan.recovery_limit:
        detail = f"p99 of {recovery.count} is {recovery.p99:.1f} s"
        violations.append(
            invariants.Violation(
                "documents of dead workers are claimed again in time", None, detail
            )
        )
    (pages,) = await run.system.rows(_PAGES)
    statuses = await run.system.rows(
        "select ocr_status, count(*) as count from public.documents group by 1 order by 2 desc"
    )
    return Result(
        plan=plan,
        violations=violations,
        seconds=faulty[1] - faulty[0],
        settled_seconds=settled,
        documents=len(submissions.ids) + sum(map(len, submissions.jobs.values())),
        jobs=len(submissions.jobs),
        statuses={row["ocr_status"]: row["count"] for row in statuses},
        disturbances=dict(journal.counts.most_common()),
        acts=dict(sorted(run.users.answers.items())),
        answers=dict(submissions.answers.most_common()),
        starts={name: program.starts for name, program in run.system.programs.by_name.items()},
        ended_by_themselves=[d.name for d in journal.deaths.values() if not d.ordered],
        has_disk=run.system.has_disk,
        looks=run.monitor.checks,
        quiet_per_second=measure_throughput(events, *quiet),
        fire_per_second=measure_throughput(events, *faulty),
        recoveries=recovery,
        recoveries_in_outages=Distribution.of(in_outages),
        work=count_claims(claims, pages["pages"], pages["again"]),
    )


# Figures ------------------------------------------------------------------------------------------


WASTED = ("rescued", "released", "cancelled")
"""Ends of a claim that lose its work since the last saved page."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of seconds; all values are 0 if there are none."""

    count: int
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Distribution:
        """Compute median, 99th percentile and maximum."""
        if not seconds:
            return cls(0, 0.0, 0.0, 0.0)
        ranked = sorted(seconds)
        last = ranked[min(len(ranked) - 1, round(0.99 * (len(ranked) - 1)))]
        return cls(len(ranked), statistics.median(ranked), last, ranked[-1])


@dataclass(frozen=True, slots=True)
class ClaimStatistics:
    """The ends of all claims; `wasted` is the share whose work was lost.

    `pages_again` counts pages saved more than once by the same reading run.
    """

    claims: int
    ends: dict[str, int]
    wasted: float
    pages: int
    pages_again: int


def count_claims(
    claims: Iterable[invariants.Claim], pages: int, pages_again: int
) -> ClaimStatistics:
    """Count claims by how they ended."""
    ends = collections.Counter(claim.end.kind if claim.end else "open" for claim in claims)
    lost = sum(ends[kind] for kind in WASTED)
    total = ends.total()
    return ClaimStatistics(total, dict(ends), lost / total if total else 0.0, pages, pages_again)


def measure_recoveries(
    claims: Iterable[invariants.Claim], journal: event_log.Journal, grace: float
) -> tuple[list[float], list[float]]:
    """Return the seconds until documents of dead or suspended workers were rescued.

    The second list has the rescues delayed by an outage of the database: for `grace` seconds after
    an outage, the sweep waits for heartbeats of all workers.
    """
    regular: list[float] = []
    during_outages: list[float] = []
    for claim in claims:
        if not claim.was_rescued or claim.end is None:
            continue
        dead_since = journal.unavailable_since(claim.pid, claim.end.at)
        if dead_since is None:
            continue
        begin = max(dead_since, claim.begin.at)
        was_delayed = any(
            span.begin <= claim.end.at and begin <= span.end + grace for span in journal.outages
        )
        (during_outages if was_delayed else regular).append(claim.end.at - begin)
    return regular, during_outages


def measure_throughput(events: Iterable[invariants.Event], begin: float, end: float) -> float:
    """Return the completed documents per second in a period."""
    count = sum(event.kind == "completed" and begin <= event.at < end for event in events)
    return count / (end - begin) if end > begin else 0.0
