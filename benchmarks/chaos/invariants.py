"""Check the invariants of a run: while it lasts, and once more when it has settled.

While it lasts: who touched a document that another worker held (invariants.sql), who was taken for
dead and was not, and which of the rules of the database did not hold.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import files, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    import psycopg

    from benchmarks.chaos import event_log
    from benchmarks.chaos.documents import Made
    from benchmarks.chaos.system import Ground
    from benchmarks.chaos.traffic import Brought, People


_SQL = Path(__file__).with_name("invariants.sql")
_LOOK_SECONDS = 5.0
# Where a connection is cut, a claim may be made while its answer is lost: whoever made it does not
# know, and is never heard of.
_LOST_ANSWER_SECONDS = 2.0
_EVENTS = """
select document_id::text, kind, status, worker, caller, reading, retries, rescues, was_heard,
  extract(epoch from at)::float8 as at
from chaos.events order by id
"""
_NOTED = "select rule, document_id::text, detail from chaos.violations order by id"
_INVARIANTS = "select invariant, document_id::text, detail from private.invariant_violations()"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that did not hold, for which document, and how that was seen."""

    rule: str
    document: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """A change of hands or of state; worker is who had the document, or has it now.

    was_heard: whoever had it had sent a heartbeat.
    """

    document_id: str
    kind: str
    status: str
    worker: str | None
    caller: str
    reading: int
    retries: int
    rescues: int
    was_heard: bool
    at: float


@dataclass(frozen=True, slots=True)
class Hold:
    """A document in the hands of a worker: from the claim to whatever ended it."""

    begin: Event
    end: Event | None

    @property
    def pid(self) -> int:
        """Tell whose hands they were."""
        return pid_of(self.begin.worker)

    @property
    def was_rescued(self) -> bool:
        """Tell whether it was taken back because nobody was heard of; not by HAC."""
        return self.end is not None and self.end.kind == "rescued" and _is_program(self.end.caller)


def pid_of(worker: str | None) -> int:
    """Take the process id out of the name of a worker, as chaos.process_of does."""
    number = (worker or "").removeprefix(f"{socket.gethostname()}-").partition("-")[0]
    return int(number) if number.isdecimal() else 0


def holds(events: Iterable[Event]) -> Iterator[Hold]:
    """Pair every claim with its end."""
    by_document = collections.defaultdict(list)
    for event in events:
        by_document[event.document_id].append(event)
    for of_one in by_document.values():
        for event, after in itertools.zip_longest(of_one, of_one[1:]):
            if event.kind == "claimed":
                yield Hold(event, after)


async def install(conn: psycopg.AsyncConnection[Any]) -> None:
    """Seat the referee in a database."""
    text = _SQL.read_text("utf-8").replace("{skip}", str(len(socket.gethostname()) + 2))
    await conn.execute(text.encode())


class Referee:
    """Watches a run; unsound are the rules of the database that it found broken on the way."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.unsound: dict[tuple[str, str | None], Violation] = {}
        self.looks = 0

    async def watch(self) -> None:
        """Look at the rules of the database now and then, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Ask the database which of its rules do not hold."""
        for row in await self._ground.rows(_INVARIANTS):
            found = Violation(row["invariant"], row["document_id"], row["detail"])
            self.unsound[found.rule, found.document] = found
        self.looks += 1

    async def events(self) -> list[Event]:
        """Give all that was seen, in order."""
        return [Event(**row) for row in await self._ground.rows(_EVENTS)]

    async def violations(self) -> list[Violation]:
        """Give all that it objects to so far."""
        noted = [
            Violation(row["rule"], row["document_id"], row["detail"])
            for row in await self._ground.rows(_NOTED)
        ]
        plan = self._ground.plan
        slack = plan.lock_seconds + plan.sweep_seconds + _LOST_ANSWER_SECONDS
        taken = unexcused(await self.events(), self._ground.journal, slack)
        return [*noted, *taken, *self.unsound.values()]


def unexcused(
    events: Iterable[Event], journal: event_log.Journal, slack: float
) -> Iterator[Violation]:
    """Find documents that were taken from a worker which nobody had killed, stopped or cut off.

    slack is how long after its last sign of life a worker may be taken for dead.
    """
    for hold in holds(events):
        if hold.was_rescued and hold.end is not None and not _excused(hold, journal, slack):
            yield Violation(
                "only who is gone loses a document to the sweep",
                hold.begin.document_id,
                f"{hold.begin.worker} had it for {hold.end.at - hold.begin.at:.1f} s and was well",
            )


def _excused(hold: Hold, journal: event_log.Journal, slack: float) -> bool:
    assert hold.end is not None  # noqa: S101  # only those that ended are asked about
    stood = any(span.touches(hold.end.at - slack, hold.end.at) for span in journal.stops[hold.pid])
    death = journal.deaths.get(hold.pid)
    died = death is not None and death.at <= hold.end.at
    at = hold.begin.at
    lost = journal.was_disturbed(at - _LOST_ANSWER_SECONDS, at + _LOST_ANSWER_SECONDS)
    return stood or died or (lost and not hold.end.was_heard)


def _is_program(caller: str) -> bool:
    return caller.removeprefix("chaos-").isdecimal()


# After the run: documents and jobs have ended as they must ----------------------------------------
# What must be true when everything has come to rest: documents and jobs have ended rightly.


_DOCUMENTS = """
select d.id::text, d.name, d.lane, d.case_id::text, d.ocr_status, d.reading, d.max_attempts,
  d.deleted_at is not null as is_deleted, d.dropbox_path, l.max_rescues,
  (select count(*) from public.ocr_processing_logs as r where r.document_id = d.id) as results,
  array(
    select o.text from public.ocr_pages as o where o.run_id = d.run_id and o.status = 'read'
    order by o.page_number
  ) as texts,
  (select count(*) from public.ocr_pages as o where o.run_id = d.run_id) as pages
from public.documents as d join public.lanes as l on l.lane = d.lane
"""
_JOBS = """
select j.id::text, j.outcome, j.error,
  array(select d.ocr_status::text from public.documents as d where d.case_id = j.id) as statuses,
  (select jsonb_object_agg(i.name, r.extracted_text) from public.check_images as i
   join public.check_results as r on r.job_id = i.job_id and r.position = i.position
   where i.job_id = j.id and r.match) as matched,
  (select count(*) from public.check_images as i where i.job_id = j.id) as images
from public.check_jobs as j
"""
_GIVEN_UP = {"dead_letter", "failed"}


@dataclass(frozen=True, slots=True)
class Judge:
    """Knows what was brought in and what people asked for, and looks at what became of it."""

    ground: Ground
    brought: Brought
    people: People

    async def judge(self, events: Sequence[Event]) -> list[Violation]:
        """Look at everything once more, now that it is over."""
        documents = await self.ground.rows(_DOCUMENTS)
        jobs = await self.ground.rows(_JOBS)
        lost = [violation async for violation in self._files(documents)]
        return [*self.verdict(documents, jobs, events), *lost]

    def verdict(
        self,
        documents: Sequence[Mapping[str, Any]],
        jobs: Sequence[Mapping[str, Any]],
        events: Sequence[Event],
    ) -> Iterator[Violation]:
        """Find what is wrong with these rows of documents and jobs."""
        yield from self._arrivals(documents)
        yield from self._ends(documents)
        yield from self._results(documents, events)
        yield from self._burials(documents, events)
        yield from self._jobs(jobs)

    def _arrivals(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
        """See that what was taken in is there, and nothing else."""
        ids = {row["id"] for row in documents}
        for name, document in self.brought.ids.items():
            if document not in ids:
                yield Violation("what was taken in is there", document, name)
        taken = {*self.brought.ids, *(n for names in self.brought.jobs.values() for n in names)}
        for row in documents:
            if row["name"] not in taken:
                yield Violation("what was refused is not there", row["id"], row["name"])
        live = collections.Counter(row["name"] for row in documents if not row["is_deleted"])
        for name, count in live.items():
            if count > 1:
                yield Violation("what was sent twice is there once", None, f"{name}: {count} times")
        for name, made in self.brought.made.items():
            if made.refused != (name in self.brought.refused):
                yield Violation("a refusal has its reason", None, name)

    def _ends(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
        """See that every document ended as it had to, or as somebody asked for."""
        for row in documents:
            made = self.brought.made[row["name"]]
            if row["is_deleted"] and row["id"] not in self.people.asked["delete"]:
                yield Violation("only people delete", row["id"], row["name"])
            if problem := self._problem(row, made):
                yield Violation("every document ends rightly", row["id"], problem)

    def _problem(self, row: Mapping[str, Any], made: Made) -> str | None:
        status, asked = row["ocr_status"], self.people.asked
        if status == "completed":
            if made.texts is None:
                return f"{made.name} cannot be read, and was"
            if tuple(row["texts"]) != made.texts or row["pages"] != len(made.texts):
                return f"{made.name} reads {row['texts'][:5]}, and says {made.texts[:5]}"
            return None
        if status in _GIVEN_UP:
            rightly = made.texts is None or made.name in asked["abandon"]
            return None if rightly else f"{made.name} is sound, and was given up as {status}"
        if status == "cancelled":
            by_job = row["case_id"] in self.brought.jobs
            rightly = by_job or row["id"] in asked["cancel"] | asked["delete"]
            return None if rightly else f"{made.name} was cancelled, and nobody asked for it"
        return f"{made.name} is still {status}"

    def _results(
        self, documents: Sequence[Mapping[str, Any]], events: Iterable[Event]
    ) -> Iterator[Violation]:
        """See that every completion has one result, and no reading has two."""
        ends = collections.Counter(e.document_id for e in events if e.kind == "completed")
        for row in documents:
            if row["results"] != ends[row["id"]]:
                detail = f"{ends[row['id']]} times completed, {row['results']} results"
                yield Violation("every completion has one result", row["id"], detail)
            if row["results"] > row["reading"]:
                detail = f"{row['reading']} readings, {row['results']} results"
                yield Violation("no reading has two results", row["id"], detail)

    def _burials(
        self, documents: Sequence[Mapping[str, Any]], events: Iterable[Event]
    ) -> Iterator[Violation]:
        """See that no sound document was given up before its attempts were used up."""
        limits = {row["id"]: row for row in documents}
        for event in events:
            row = limits[event.document_id]
            buried = event.status in _GIVEN_UP and event.kind in {"failed", "rescued"}
            if not buried or self.brought.made[row["name"]].texts is None:
                continue
            if event.retries < row["max_attempts"] and event.rescues <= row["max_rescues"]:
                detail = f"{event.retries} failures, {event.rescues} rescues"
                yield Violation("a sound document has all its attempts", row["id"], detail)

    def _jobs(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
        """See that every job that was taken has one outcome, and that it fits its pictures."""
        ids = {job["id"] for job in jobs}
        for lost in self.brought.jobs.keys() - ids:
            yield Violation("what was taken in is there", lost, "a job")
        for job in jobs:
            if job["id"] not in self.brought.jobs:
                yield Violation("what was sent twice is there once", job["id"], "a job")
            elif problem := self._problem_of_job(job):
                yield Violation("the outcome of a job fits its pictures", job["id"], problem)

    def _problem_of_job(self, job: Mapping[str, Any]) -> str | None:
        made = [self.brought.made[name] for name in self.brought.jobs[job["id"]]]
        statuses = set(job["statuses"])
        if job["outcome"] == "SUCCEEDED":
            expected = {one.name: "\n".join(one.texts or ()) for one in made}
            sound = statuses == {"completed"} and job["matched"] == expected
            return None if sound else f"it succeeded, with {statuses} and {job['matched']}"
        if job["outcome"] == "FAILED":
            rightly = "failed" in statuses and any(one.texts is None for one in made)
            return None if rightly else f"it failed ({job['error']}), with {statuses}"
        asked = self.people.asked
        if job["outcome"] == "CANCELLED":
            return None if job["id"] in asked["cancel job"] else "nobody cancelled it"
        return f"it has no outcome, with {statuses}"

    async def _files(self, documents: Sequence[Mapping[str, Any]]) -> AsyncIterator[Violation]:
        """See that the file of every document is there."""
        chosen = settings.Settings(home=self.ground.place.home, files=str(self.ground.files))
        async with files.open_store(chosen) as store:
            for row in documents:
                path = row["dropbox_path"]
                if path is None or await store.stat(path.removeprefix("/")) is None:
                    yield Violation("no file is lost", row["id"], path)
