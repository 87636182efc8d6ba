"""The traffic of a run: uploads, check jobs, user actions; and the depth of the queue."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import psycopg

from benchmarks.chaos import event_log, plan
from pagewarden import database, errors, registry, settings, storage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

    from benchmarks.chaos.documents import DocumentGenerator, SampleFile
    from benchmarks.chaos.system import ChaosSystem


# Uploads ------------------------------------------------------------------------------------------
# Clients repeat every request until it is answered. Images and PDFs are uploaded, documents of the
# registry inserted through the view, images to be checked submitted as jobs.


_RETRY_SECONDS = 0.3
_WAIT_SECONDS = 0.05
_CLIENTS = {"image": 4, "pdf": 2, "index": 2, "acte": 2, "check": 2}
_LANGUAGE = "fr"
EXTRACTOR = "chaos-extractor"


@dataclass(slots=True)
class Submissions:
    """The generated files by name, and the responses: ids of documents and jobs, rejected names."""

    files: dict[str, SampleFile] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, list[str]] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    answers: collections.Counter[str] = field(default_factory=collections.Counter)

    def readable(self, *, slow: bool = False) -> list[str]:
        """List the names of valid documents in upload order, by default without slow ones."""
        return [n for n in self.ids if self.files[n].texts and (slow or not self.files[n].is_slow)]


class DocumentSource:
    """Keeps every lane supplied until it is closed; uploads that have begun are completed."""

    def __init__(self, system: ChaosSystem, maker: DocumentGenerator, queue: QueueMonitor) -> None:
        self._system = system
        self._generator = maker
        self._queue = queue
        self._pending: collections.Counter[str] = collections.Counter()
        self.submissions = Submissions()
        self.is_open = True
        self.is_done = False

    async def run(self) -> None:
        """Upload documents until it is closed or the planned number is reached."""
        async with self._open_uploader() as uploader, asyncio.TaskGroup() as group:
            for lane, count in _CLIENTS.items():
                for _ in range(count):
                    group.create_task(self._supply(lane, uploader))
        self.is_done = True

    @contextlib.asynccontextmanager
    async def _open_uploader(self) -> AsyncIterator[_Uploader]:
        store_settings = settings.Settings(
            home=self._system.installation.home, files=str(self._system.files)
        )
        url = f"{self._system.local.url()}&application_name={EXTRACTOR}"
        async with (
            self._system.client() as client,
            await database.connect_direct(url) as link,
            storage.open_store(store_settings) as store,
        ):
            yield _Uploader(client, registry.Registry(link, EXTRACTOR), store, self.submissions)

    async def _supply(self, lane: str, uploader: _Uploader) -> None:
        wanted = self._system.plan.waiting[lane]
        while self.is_open and len(self.submissions.files) < self._system.plan.documents:
            if self._queue.waiting[lane] + self._pending[lane] >= wanted:
                await asyncio.sleep(_WAIT_SECONDS)
                continue
            files = self._generator.generate(lane)
            self.submissions.files |= {file.name: file for file in files}
            self._pending[lane] += len(files)
            try:
                await uploader.upload(lane, files)
            finally:
                self._pending[lane] -= len(files)


@dataclass(frozen=True, slots=True)
class _Uploader:
    client: httpx.AsyncClient
    extractor: registry.Registry
    store: storage.FileStore
    submissions: Submissions

    async def upload(self, lane: str, files: Sequence[SampleFile]) -> None:
        if lane == "check":
            await self._submit(files)
        elif lane in {"index", "acte"}:
            await self._register(lane, files[0])
        else:
            await self._upload(files[0])

    async def _upload(self, file: SampleFile) -> None:
        body = {"file": (file.name, file.content)}
        response = await self._post("/functions/v1/upload-to-dropbox", files=body)
        if response.is_success:
            self.submissions.ids[file.name] = response.json()["document_id"]
        else:
            self.submissions.rejected.add(file.name)

    async def _submit(self, files: Sequence[SampleFile]) -> None:
        """Submit a check job; the idempotency key makes retries the same job."""
        parts = [("images", (file.name, file.content)) for file in files]
        expected = {file.name: list(file.texts) for file in files if file.texts}
        if expected:
            parts.append(("references", ("references.json", json.dumps(expected).encode())))
        form = {"language": _LANGUAGE, "idempotency_key": str(uuid.uuid4())}
        response = await self._post("/jobs", files=parts, data=form)
        if response.is_success:
            self.submissions.jobs[response.json()["jobId"]] = [file.name for file in files]
        else:
            self.submissions.rejected |= {file.name for file in files}

    async def _post(self, path: str, **body: object) -> httpx.Response:
        """Send a request until it is accepted, or rejected for good."""
        while True:
            try:
                response = await self.client.post(path, **body)  # type: ignore[arg-type]
            except httpx.TransportError as exc:
                self.submissions.answers[type(exc).__name__] += 1
            else:
                self.submissions.answers[str(response.status_code)] += 1
                if response.status_code < 500:
                    return response
            await asyncio.sleep(_RETRY_SECONDS)

    async def _register(self, lane: str, file: SampleFile) -> None:
        """Insert a document as an extractor does; after an error, continue from its status."""
        while True:
            try:
                entry = await self._find_or_enqueue(lane, file)
                if entry.status is registry.RegistryStatus.EN_ATTENTE:
                    await self.extractor.begin(entry.id)
                elif entry.status is registry.RegistryStatus.EN_TRAITEMENT:
                    await self._attach(entry, file)
                else:
                    self.submissions.ids[file.name] = entry.id
                    return
            except (errors.DatabaseUnavailable, errors.Conflict, errors.FileStoreError) as exc:
                self.submissions.answers[type(exc).__name__] += 1
                await asyncio.sleep(_RETRY_SECONDS)

    async def _find_or_enqueue(self, lane: str, file: SampleFile) -> registry.RegistryEntry:
        where = {"document_name": file.name}
        rows = await self.extractor.database.select(registry.VIEW, where=where)
        if rows:
            return registry.RegistryEntry.from_row(rows[0])
        return await self.extractor.enqueue(lane, file.name)

    async def _attach(self, entry: registry.RegistryEntry, file: SampleFile) -> None:
        path = f"registry/{entry.id}/{file.name}"

        async def content() -> AsyncIterator[bytes]:
            yield file.content

        with contextlib.suppress(errors.FileExists):
            await self.store.write(path, content())
        await self.extractor.attach(entry.id, path)


# Actions of users ---------------------------------------------------------------------------------
# HAC and the senders of jobs act at random. A request may have had its effect even without a
# response; but every cancellation, deletion or abandonment must have been requested here.


APPLICATION = "chaos-hac"
_RECENT = 60
_PAUSE_SECONDS = (1.0, 5.0)
_DEAD_LETTERS = """
select l.id::text, d.name from public.ocr_dead_letter as l
join public.documents as d on d.id = l.document_id
where d.ocr_status = 'dead_letter' order by l.id
"""
_PROCESSING = "select id::text from public.documents where ocr_status = 'processing' order by id"


class Users:
    """Random actions of HAC and job senders.

    `requested` has the ids of the targets by action; for dead letters, the names of documents.
    """

    def __init__(
        self, system: ChaosSystem, link: database.Database, submissions: Submissions
    ) -> None:
        self._system = system
        self._link = link
        self._submitted = submissions
        self._rng = system.plan.rng("what people do")
        self.requested: collections.defaultdict[str, set[str]] = collections.defaultdict(set)
        self.answers: collections.Counter[str] = collections.Counter()

    async def cancel(self) -> None:
        """Cancel a recent document."""
        if names := self._submitted.readable(slow=True)[-_RECENT:]:
            document = self._submitted.ids[self._rng.choice(names)]
            await self._request(
                "cancel", document, self._link.cancel_document(document_id=document)
            )

    async def read_again(self) -> None:
        """Read a random document again."""
        if names := self._submitted.readable():
            await self.read_document_again(self._submitted.ids[self._rng.choice(names)])

    async def read_document_again(self, document: str) -> None:
        """Read this document again."""
        await self._request("read again", document, self._link.read_again(document_id=document))

    async def resolve_dead_letter(self) -> None:
        """Requeue or abandon a random dead letter."""
        if letters := await self._system.rows(_DEAD_LETTERS):
            letter = self._rng.choice(letters)
            action = self._rng.choice(["requeue", "abandon"])
            await self.resolve(letter["id"], letter["name"], action)

    async def resolve(self, letter: str, name: str, action: str) -> None:
        """Resolve this dead letter."""
        call = self._link.resolve_dead_letter(dlq_id=letter, action=action)
        await self._request(action, name, call)

    async def delete_and_restore(self) -> None:
        """Delete a document, and mostly restore it."""
        names = self._submitted.readable(slow=True)
        if not names:
            return
        document = self._submitted.ids[self._rng.choice(names)]
        await self._request("delete", document, self._link.delete_document(document_id=document))
        if self._rng.random() < 0.7:
            await asyncio.sleep(self._rng.uniform(*_PAUSE_SECONDS))
            await self._request(
                "restore", document, self._link.restore_document(document_id=document)
            )

    async def pause(self) -> None:
        """Pause a lane for a while."""
        lane = self._rng.choice(plan.LANES)
        await self._request("pause", lane, self._link.pause_lane(lane=lane, reason="chaos test"))
        try:
            await asyncio.sleep(self._rng.uniform(*_PAUSE_SECONDS))
        finally:
            await self.resume(lane)

    async def resume(self, lane: str) -> None:
        """Resume a lane; retry until it has succeeded."""
        while await self._request("resume", lane, self._link.resume_lane(lane=lane)) is None:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.5)

    async def recover(self) -> None:
        """Recover a document as stuck that a worker is processing."""
        if rows := await self._system.rows(_PROCESSING):
            document = self._rng.choice(rows)["id"]
            call = self._link.recover_stuck_documents(stuck_minutes=0, document_ids=[document])
            await self._request("recover", document, call)

    async def cancel_job(self) -> None:
        """Cancel a recent job, as its sender does."""
        if jobs := list(self._submitted.jobs)[-_RECENT:]:
            job = self._rng.choice(jobs)
            self.requested["cancel job"].add(job)
            with contextlib.suppress(httpx.TransportError):
                async with self._system.client() as client:
                    response = await client.delete(f"/jobs/{job}")
                    self.answers[f"cancel job: {response.status_code}"] += 1

    async def rerun_job(self, job: str | None = None) -> None:
        """Run a job again, either all images or the failed ones."""
        if job is None and self._submitted.jobs:
            job = self._rng.choice(list(self._submitted.jobs))
        if job is not None:
            call = self._link.rerun_check_job(job_id=job, all=self._rng.random() < 0.5)
            await self._request("run job", job, call)

    async def _request(
        self, action: str, target: str, call: Awaitable[Mapping[str, Any]]
    ) -> Mapping[str, Any] | None:
        """Send a request once; return None if its effect is unknown."""
        self.requested[action].add(target)
        try:
            response = await call
        except (errors.DatabaseUnavailable, errors.Conflict) as exc:
            self.answers[f"{action}: {type(exc).__name__}"] += 1
            return None
        self.answers[f"{action}: {response.get('error') or 'done'}"] += 1
        return response


@contextlib.asynccontextmanager
async def sign_in_users(system: ChaosSystem, submissions: Submissions) -> AsyncIterator[Users]:
    """Sign in as the first administrator."""
    query = "select user_id::text from public.user_roles where role = 'admin' limit 1"
    (row,) = await system.rows(query)
    url = f"{system.local.url()}&application_name={APPLICATION}"
    async with await database.connect_direct(url) as link:
        as_admin = link.acting_as(database.User(row["user_id"]))
        yield Users(system, as_admin, submissions)


# Depth of the queue -------------------------------------------------------------------------------
# The open documents in each lane, and outages of the database, by polling.


_POLL_SECONDS = 0.25
_STATEMENT_TIMEOUT = 3.0
_COUNT = """
select (select count(*) from chaos.events where kind = 'completed') as completed,
  (
    select coalesce(jsonb_object_agg(w.lane, w.waiting), '{}') from (
      select d.lane, count(*) as waiting from public.documents as d
      where d.ocr_status not in ('completed', 'dead_letter', 'failed', 'cancelled')
      group by d.lane
    ) as w
  ) as waiting
"""


class QueueMonitor:
    """The latest counts from the database; an outage is recorded when it is over."""

    def __init__(self, system: ChaosSystem) -> None:
        self._system = system
        self._last_response = time.time()
        self.completed = 0
        self.waiting: collections.Counter[str] = collections.Counter()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                async with await self._system.connect() as conn:
                    while True:
                        await self._poll(conn)
                        await asyncio.sleep(_POLL_SECONDS)
            except (psycopg.OperationalError, TimeoutError):
                await asyncio.sleep(_POLL_SECONDS)

    async def _poll(self, conn: psycopg.AsyncConnection[dict[str, Any]]) -> None:
        async with asyncio.timeout(_STATEMENT_TIMEOUT):
            row = await (await conn.execute(_COUNT)).fetchone()
        assert row is not None  # noqa: S101  # an aggregate has one row
        now = time.time()
        if now - self._last_response > _STATEMENT_TIMEOUT:
            self._system.journal.outages.append(event_log.Span(self._last_response, now))
        self._last_response = now
        self.completed = row["completed"]
        self.waiting = collections.Counter(row["waiting"])
