"""What must be true when everything has come to rest: documents and jobs have ended rightly."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import files, settings
from pagewarden.bench.chaos import referee as referees

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from pagewarden.bench.chaos.documents import Made
    from pagewarden.bench.chaos.ground import Ground
    from pagewarden.bench.chaos.intake import Brought
    from pagewarden.bench.chaos.people import People

Violation = referees.Violation

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

    async def judge(self, events: Sequence[referees.Event]) -> list[Violation]:
        """Look at everything once more, now that it is over."""
        documents = await self.ground.rows(_DOCUMENTS)
        jobs = await self.ground.rows(_JOBS)
        lost = [violation async for violation in self._files(documents)]
        return [*self.verdict(documents, jobs, events), *lost]

    def verdict(
        self,
        documents: Sequence[Mapping[str, Any]],
        jobs: Sequence[Mapping[str, Any]],
        events: Sequence[referees.Event],
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
        self, documents: Sequence[Mapping[str, Any]], events: Iterable[referees.Event]
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
        self, documents: Sequence[Mapping[str, Any]], events: Iterable[referees.Event]
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
