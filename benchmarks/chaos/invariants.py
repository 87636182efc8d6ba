"""Check the invariants of a run: during the run, and again after it has settled.

During the run: changes of a document by another process than its holder (invariants.sql), rescues
of documents from healthy workers, and violated invariants of the database.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import settings, storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    import psycopg

    from benchmarks.chaos import event_log
    from benchmarks.chaos.documents import SampleFile
    from benchmarks.chaos.system import ChaosSystem
    from benchmarks.chaos.traffic import Submissions, Users


_SQL = Path(__file__).with_name("invariants.sql")
_CHECK_SECONDS = 5.0
# If a connection is cut during a claim, the worker may not learn of its claim, and so never sends a
# heartbeat for it.
_LOST_CLAIM_SECONDS = 2.0
_EVENTS = """
select document_id::text, kind, status, worker, caller, reading, retries, rescues, had_heartbeat,
  extract(epoch from at)::float8 as at
from chaos.events order by id
"""
_RECORDED = "select rule, document_id::text, detail from chaos.violations order by id"
_INVARIANTS = "select invariant, document_id::text, detail from private.invariant_violations()"


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated rule, the document, and details."""

    rule: str
    document: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the holder or status of a document; `worker` is the old or new holder.

    `had_heartbeat` is true if the old holder had sent a heartbeat.
    """

    document_id: str
    kind: str
    status: str
    worker: str | None
    caller: str
    reading: int
    retries: int
    rescues: int
    had_heartbeat: bool
    at: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's claim on a document: the event of the claim, and the one that ended it."""

    begin: Event
    end: Event | None

    @property
    def pid(self) -> int:
        """Return the process id of the worker."""
        return parse_pid(self.begin.worker)

    @property
    def was_rescued(self) -> bool:
        """Return whether the sweep took it back, and not HAC."""
        return self.end is not None and self.end.kind == "rescued" and _is_program(self.end.caller)


def parse_pid(worker: str | None) -> int:
    """Return the process id in the name of a worker, as chaos.process_of does."""
    number = (worker or "").removeprefix(f"{socket.gethostname()}-").partition("-")[0]
    return int(number) if number.isdecimal() else 0


def pair_claims(events: Iterable[Event]) -> Iterator[Claim]:
    """Pair every claim with the event that ended it."""
    by_document = collections.defaultdict(list)
    for event in events:
        by_document[event.document_id].append(event)
    for history in by_document.values():
        for event, following in itertools.zip_longest(history, history[1:]):
            if event.kind == "claimed":
                yield Claim(event, following)


async def install(conn: psycopg.AsyncConnection[Any]) -> None:
    """Install the triggers of the monitor in a database."""
    text = _SQL.read_text("utf-8").replace("{skip}", str(len(socket.gethostname()) + 2))
    await conn.execute(text.encode())


class InvariantMonitor:
    """Monitors a run; `violated` collects violations of the database's own invariants."""

    def __init__(self, system: ChaosSystem) -> None:
        self._system = system
        self.violated: dict[tuple[str, str | None], Violation] = {}
        self.checks = 0

    async def watch(self) -> None:
        """Check the database's own invariants periodically until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(_CHECK_SECONDS)

    async def check(self) -> None:
        """Ask the database for violations of its own invariants."""
        for row in await self._system.rows(_INVARIANTS):
            violation = Violation(row["invariant"], row["document_id"], row["detail"])
            self.violated[violation.rule, violation.document] = violation
        self.checks += 1

    async def load_events(self) -> list[Event]:
        """Load all events in order."""
        return [Event(**row) for row in await self._system.rows(_EVENTS)]

    async def find_violations(self) -> list[Violation]:
        """Return all violations so far."""
        recorded = [
            Violation(row["rule"], row["document_id"], row["detail"])
            for row in await self._system.rows(_RECORDED)
        ]
        plan = self._system.plan
        slack = plan.lock_seconds + plan.sweep_seconds + _LOST_CLAIM_SECONDS
        wrongful = find_wrongful_rescues(await self.load_events(), self._system.journal, slack)
        return [*recorded, *wrongful, *self.violated.values()]


def find_wrongful_rescues(
    events: Iterable[Event], journal: event_log.Journal, slack: float
) -> Iterator[Violation]:
    """Find documents rescued from workers that were not killed, suspended or disconnected.

    `slack` is the time after the last heartbeat within which the sweep may rescue a document.
    """
    for claim in pair_claims(events):
        if claim.was_rescued and claim.end is not None and not _is_justified(claim, journal, slack):
            yield Violation(
                "the sweep rescues documents only from dead workers",
                claim.begin.document_id,
                f"{claim.begin.worker} was healthy after {claim.end.at - claim.begin.at:.1f} s",
            )


def _is_justified(claim: Claim, journal: event_log.Journal, slack: float) -> bool:
    assert claim.end is not None  # noqa: S101  # callers check it
    was_suspended = any(
        span.overlaps(claim.end.at - slack, claim.end.at) for span in journal.suspensions[claim.pid]
    )
    death = journal.deaths.get(claim.pid)
    was_dead = death is not None and death.at <= claim.end.at
    at = claim.begin.at
    is_unknown = journal.was_disturbed(at - _LOST_CLAIM_SECONDS, at + _LOST_CLAIM_SECONDS)
    return was_suspended or was_dead or (is_unknown and not claim.end.had_heartbeat)


def _is_program(caller: str) -> bool:
    return caller.removeprefix("chaos-").isdecimal()


# After the run ------------------------------------------------------------------------------------
# Every document and job has ended in the expected state.


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
class FinalCheck:
    """Compares the final documents and jobs with the uploads and user actions of the run."""

    system: ChaosSystem
    submissions: Submissions
    users: Users

    async def run(self, events: Sequence[Event]) -> list[Violation]:
        """Check all documents, jobs and files."""
        documents = await self.system.rows(_DOCUMENTS)
        jobs = await self.system.rows(_JOBS)
        files = [violation async for violation in self._check_files(documents)]
        return [*self.check_rows(documents, jobs, events), *files]

    def check_rows(
        self,
        documents: Sequence[Mapping[str, Any]],
        jobs: Sequence[Mapping[str, Any]],
        events: Sequence[Event],
    ) -> Iterator[Violation]:
        """Check these rows of documents and jobs."""
        yield from self._check_uploads(documents)
        yield from self._check_final_states(documents)
        yield from self._check_results(documents, events)
        yield from self._check_attempts(documents, events)
        yield from self._check_jobs(jobs)

    def _check_uploads(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
        """Check that every accepted upload is there once, and no rejected one."""
        ids = {row["id"] for row in documents}
        for name, document in self.submissions.ids.items():
            if document not in ids:
                yield Violation("an accepted upload is not lost", document, name)
        accepted = {
            *self.submissions.ids,
            *(n for names in self.submissions.jobs.values() for n in names),
        }
        for row in documents:
            if row["name"] not in accepted:
                yield Violation("a rejected upload leaves no document", row["id"], row["name"])
        live = collections.Counter(row["name"] for row in documents if not row["is_deleted"])
        for name, count in live.items():
            if count > 1:
                yield Violation(
                    "a repeated upload creates one document", None, f"{name}: {count} times"
                )
        for name, file in self.submissions.files.items():
            if file.is_rejected != (name in self.submissions.rejected):
                yield Violation("exactly the invalid files are rejected", None, name)

    def _check_final_states(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
        """Check that every document ended as its content or a user action requires."""
        for row in documents:
            file = self.submissions.files[row["name"]]
            if row["is_deleted"] and row["id"] not in self.users.requested["delete"]:
                yield Violation("documents are deleted only by users", row["id"], row["name"])
            if problem := self._find_problem(row, file):
                yield Violation("every document ends in the expected state", row["id"], problem)

    def _find_problem(self, row: Mapping[str, Any], file: SampleFile) -> str | None:
        status, requested = row["ocr_status"], self.users.requested
        if status == "completed":
            if file.texts is None:
                return f"{file.name} is damaged, but was completed"
            if tuple(row["texts"]) != file.texts or row["pages"] != len(file.texts):
                return f"{file.name} has texts {row['texts'][:5]}, expected {file.texts[:5]}"
            return None
        if status in _GIVEN_UP:
            is_expected = file.texts is None or file.name in requested["abandon"]
            return None if is_expected else f"{file.name} is valid, but ended as {status}"
        if status == "cancelled":
            by_job = row["case_id"] in self.submissions.jobs
            is_expected = by_job or row["id"] in requested["cancel"] | requested["delete"]
            return None if is_expected else f"{file.name} was cancelled without a request"
        return f"{file.name} is still {status}"

    def _check_results(
        self, documents: Sequence[Mapping[str, Any]], events: Iterable[Event]
    ) -> Iterator[Violation]:
        """Check that every completion has one result, and no reading has two."""
        completions = collections.Counter(e.document_id for e in events if e.kind == "completed")
        for row in documents:
            if row["results"] != completions[row["id"]]:
                detail = f"{completions[row['id']]} completions, {row['results']} results"
                yield Violation("every completion has one result", row["id"], detail)
            if row["results"] > row["reading"]:
                detail = f"{row['reading']} readings, {row['results']} results"
                yield Violation("no reading has two results", row["id"], detail)

    def _check_attempts(
        self, documents: Sequence[Mapping[str, Any]], events: Iterable[Event]
    ) -> Iterator[Violation]:
        """Check that no valid document was given up before its last attempt."""
        limits = {row["id"]: row for row in documents}
        for event in events:
            row = limits[event.document_id]
            was_given_up = event.status in _GIVEN_UP and event.kind in {"failed", "rescued"}
            if not was_given_up or self.submissions.files[row["name"]].texts is None:
                continue
            if event.retries < row["max_attempts"] and event.rescues <= row["max_rescues"]:
                detail = f"{event.retries} failures, {event.rescues} rescues"
                yield Violation(
                    "a valid document is not given up before its last attempt", row["id"], detail
                )

    def _check_jobs(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
        """Check that every accepted job has one outcome, and that it matches its images."""
        ids = {job["id"] for job in jobs}
        for lost in self.submissions.jobs.keys() - ids:
            yield Violation("an accepted upload is not lost", lost, "a job")
        for job in jobs:
            if job["id"] not in self.submissions.jobs:
                yield Violation("a repeated upload creates one document", job["id"], "a job")
            elif problem := self._find_job_problem(job):
                yield Violation("the outcome of a job matches its images", job["id"], problem)

    def _find_job_problem(self, job: Mapping[str, Any]) -> str | None:
        files = [self.submissions.files[name] for name in self.submissions.jobs[job["id"]]]
        statuses = set(job["statuses"])
        if job["outcome"] == "SUCCEEDED":
            expected = {file.name: "\n".join(file.texts or ()) for file in files}
            is_expected = statuses == {"completed"} and job["matched"] == expected
            return None if is_expected else f"succeeded with {statuses} and {job['matched']}"
        if job["outcome"] == "FAILED":
            is_expected = "failed" in statuses and any(file.texts is None for file in files)
            return None if is_expected else f"failed ({job['error']}) with {statuses}"
        requested = self.users.requested
        if job["outcome"] == "CANCELLED":
            return None if job["id"] in requested["cancel job"] else "cancelled without a request"
        return f"no outcome, with {statuses}"

    async def _check_files(
        self, documents: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[Violation]:
        """Check that the file of every document is there."""
        store_settings = settings.Settings(
            home=self.system.installation.home, files=str(self.system.files)
        )
        async with storage.open_store(store_settings) as store:
            for row in documents:
                path = row["dropbox_path"]
                if path is None or await store.stat(path.removeprefix("/")) is None:
                    yield Violation("no file is lost", row["id"], path)
