"""A chaos run: warm up, inject faults, settle, conclude; and the figures of it."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.chaos import documents, faults, invariants, system, traffic
from benchmarks.chaos import plan as plans

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from pathlib import Path

    from benchmarks.chaos import event_log


_POLL_SECONDS = 0.25
_WARM_DOCUMENTS = 20
_WARM_SECONDS = 60.0
_TUNE = """
update public.lanes set failed_pages_allowed = 0, backoff_seconds = %s, probe_seconds = %s
returning lane
"""
_RESTLESS = """
select count(*) as count from public.documents
where ocr_status not in ('completed', 'dead_letter', 'failed', 'cancelled')
"""
_LETTERS = """
select l.id::text, d.name from public.ocr_dead_letter as l
join public.documents as d on d.id = l.document_id where d.ocr_status = 'dead_letter'
"""
_FAILED_JOBS = "select id::text from public.check_jobs where outcome = 'FAILED'"
_PAGES = """
select count(*) as pages, coalesce(sum(p.times - 1), 0)::integer as again
from chaos.pages as p
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What a run has shown; figures are None where it was broken off at the first violation."""

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
    recoveries: Spread
    recoveries_in_outages: Spread
    work: Work

    @property
    def share(self) -> float:
        """Tell what was left of the quiet throughput under fire."""
        return self.fire_per_second / self.quiet_per_second if self.quiet_per_second else 0.0


@dataclass(slots=True)
class Run:
    """All that takes part."""

    ground: system.Ground
    pulse: traffic.Pulse
    referee: invariants.Referee
    intake: traffic.Intake
    people: traffic.People

    async def fire(self, seconds: float) -> tuple[float, float]:
        """Disturb for so long, or until something is found; tell from when to when that was."""
        over = asyncio.Event()
        begin = time.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(faults.Monkey(self.ground, self.people).run(over))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.until_found()
            end = time.time()
            over.set()
        return begin, end

    async def break_build(self, name: str) -> None:
        """Take a safeguard away; see benchmarks.chaos.plan."""
        async with await self.ground.connect() as conn:
            await plans.break_build(conn, name)

    async def until_found(self) -> None:
        """Wait until the referee objects to something."""
        while not await self.referee.violations():  # noqa: ASYNC110  # other processes
            await asyncio.sleep(self.ground.plan.lock_seconds / 4)

    async def rest(self) -> float | None:
        """Bring everything to rest: HAC sees to what is sound; None when it takes too long."""
        begin = time.monotonic()
        self.intake.is_open = False
        for lane in plans.LANES:
            await self.people.resume(lane)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.ground.plan.settle_seconds):
                while not await self._is_quiet():  # noqa: ASYNC110  # other processes
                    await asyncio.sleep(_POLL_SECONDS)
                return time.monotonic() - begin
        return None

    async def _is_quiet(self) -> bool:
        """Send sound documents round again that were given up; tell whether all have ended."""
        made = self.intake.brought.made
        again = [row for row in await self.ground.rows(_LETTERS) if made[row["name"]].texts]
        for row in again:
            await self.people.settle(row["id"], row["name"], "requeue")
        jobs = [row["id"] for row in await self.ground.rows(_FAILED_JOBS)]
        sound = [job for job in jobs if all(made[n].texts for n in self._names(job))]
        for job in sound:
            await self.people.rerun_job(job)
        ((left,),) = [row.values() for row in await self.ground.rows(_RESTLESS)]
        return not (again or sound or left) and self.intake.is_done

    def _names(self, job: str) -> Sequence[str]:
        return self.intake.brought.jobs.get(job, ())


@contextlib.asynccontextmanager
async def begun(plan: plans.Plan, said: Path) -> AsyncIterator[Run]:
    """Start a system with its referee, and documents that come in."""
    async with system.open_system(plan, said) as place:
        async with await place.connect() as conn:
            await invariants.install(conn)
        watching = invariants.Referee(place)
        await place.rows(_TUNE, plan.backoff_seconds, plan.probe_seconds)
        beating = traffic.Pulse(place)
        bringing = traffic.Intake(place, documents.Maker(plan), beating)
        async with traffic.sign_in_users(place, bringing.brought) as acting:
            works = (beating.feel(), watching.watch(), bringing.run())
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work) for work in works]
                yield Run(place, beating, watching, bringing, acting)
                for task in tasks:
                    task.cancel()


async def execute(plan: plans.Plan, said: Path, say: Callable[[str], None]) -> Found:
    """Make a whole run."""
    async with begun(plan, said) as run:
        say("the system is up; documents come in")
        await _warm_up(run)
        quiet = time.time(), time.time() + plan.quiet_seconds
        await asyncio.sleep(plan.quiet_seconds)
        if plan.broken is not None:
            await run.break_build(plan.broken)
        say(f"fire, for {plan.fire_seconds:.0f} s")
        fire = await run.fire(plan.fire_seconds)
        violations = await run.referee.violations()
        settled = None
        if not violations:
            say("the fire is out; everything comes to rest")
            settled = await run.rest()
        return await conclude(run, quiet, fire, settled)


async def _warm_up(run: Run) -> None:
    """Wait until everybody is at work."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_WARM_SECONDS):
            while run.pulse.completed < _WARM_DOCUMENTS:  # noqa: ASYNC110  # other processes
                await asyncio.sleep(_POLL_SECONDS)


async def conclude(
    run: Run, quiet: tuple[float, float], fire: tuple[float, float], settled: float | None
) -> Found:
    """Judge what has come to rest, and count."""
    plan, journal, brought = run.ground.plan, run.ground.journal, run.intake.brought
    await run.referee.look()
    events = await run.referee.events()
    held = list(invariants.holds(events))
    usual, in_outages = recoveries(held, journal, plan.lock_seconds + plan.sweep_seconds)
    violations = await run.referee.violations()
    if settled is not None:
        judge = invariants.Judge(run.ground, brought, run.people)
        violations += await judge.judge(events)
    elif not violations:
        violations.append(invariants.Violation("all comes to rest", None, None))
    spread = Spread.of(usual)
    if spread.p99 > plan.recovery_limit:
        detail = f"p99 of {spread.count} is {spread.p99:.1f} s"
        violations.append(invariants.Violation("dead hands are opened in time", None, detail))
    (pages,) = await run.ground.rows(_PAGES)
    statuses = await run.ground.rows(
        "select ocr_status, count(*) as count from public.documents group by 1 order by 2 desc"
    )
    return Found(
        plan=plan,
        violations=violations,
        seconds=fire[1] - fire[0],
        settled_seconds=settled,
        documents=len(brought.ids) + sum(map(len, brought.jobs.values())),
        jobs=len(brought.jobs),
        statuses={row["ocr_status"]: row["count"] for row in statuses},
        disturbances=dict(journal.counts.most_common()),
        acts=dict(sorted(run.people.answers.items())),
        answers=dict(brought.answers.most_common()),
        starts={name: program.starts for name, program in run.ground.crew.programs.items()},
        ended_by_themselves=[d.name for d in journal.deaths.values() if not d.ordered],
        has_disk=run.ground.has_disk,
        looks=run.referee.looks,
        quiet_per_second=per_second(events, *quiet),
        fire_per_second=per_second(events, *fire),
        recoveries=spread,
        recoveries_in_outages=Spread.of(in_outages),
        work=work(held, pages["pages"], pages["again"]),
    )


# Figures ------------------------------------------------------------------------------------------


WASTED = ("rescued", "given back", "cancelled")
"""Ends of a claim whose work was done for nothing, at least that since the last page was saved."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number of seconds are spread; all are 0 where there are none."""

    count: int
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Find the middle, the last hundredth and the longest."""
        if not seconds:
            return cls(0, 0.0, 0.0, 0.0)
        ranked = sorted(seconds)
        last = ranked[min(len(ranked) - 1, round(0.99 * (len(ranked) - 1)))]
        return cls(len(ranked), statistics.median(ranked), last, ranked[-1])


@dataclass(frozen=True, slots=True)
class Work:
    """What became of the claims, by how they ended; wasted is the share whose work was lost.

    Pages saved again are those that were saved before, in the same run of the same reading.
    """

    claims: int
    ends: dict[str, int]
    wasted: float
    pages: int
    pages_again: int


def work(holds: Iterable[invariants.Hold], pages: int, pages_again: int) -> Work:
    """Count how claims ended."""
    ends = collections.Counter(hold.end.kind if hold.end else "open" for hold in holds)
    lost = sum(ends[kind] for kind in WASTED)
    claims = ends.total()
    return Work(claims, dict(ends), lost / claims if claims else 0.0, pages, pages_again)


def recoveries(
    holds: Iterable[invariants.Hold], journal: event_log.Journal, grace: float
) -> tuple[list[float], list[float]]:
    """Find how long documents stayed in hands that were killed or stood still, in seconds.

    Second come those during whose wait the database was away, or had been less than grace
    before: then the sweep lets every worker be heard first.
    """
    usual: list[float] = []
    during_outages: list[float] = []
    for hold in holds:
        if not hold.was_rescued or hold.end is None:
            continue
        gone = journal.gone_since(hold.pid, hold.end.at)
        if gone is None:
            continue
        begin = max(gone, hold.begin.at)
        away = any(
            span.begin <= hold.end.at and begin <= span.end + grace for span in journal.outages
        )
        (during_outages if away else usual).append(hold.end.at - begin)
    return usual, during_outages


def per_second(events: Iterable[invariants.Event], begin: float, end: float) -> float:
    """Tell how many documents were completed each second in between."""
    count = sum(event.kind == "completed" and begin <= event.at < end for event in events)
    return count / (end - begin) if end > begin else 0.0
