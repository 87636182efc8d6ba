"""What comes to the system during a run: uploads, jobs, actions of users; and the queue depth."""

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
from pagewarden import database, errors, files, registry, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence

    from benchmarks.chaos.documents import Made, Maker
    from benchmarks.chaos.system import Ground


# Uploads ------------------------------------------------------------------------------------------
# Documents come in as from clients that repeat every request until it is answered.
#
# Photos and PDFs are uploaded, documents of the registry come through its view, and pictures to be
# checked as jobs.


_AGAIN_SECONDS = 0.3
_WAIT_SECONDS = 0.05
_CLIENTS = {"image": 4, "pdf": 2, "index": 2, "acte": 2, "check": 2}
_LANGUAGE = "fr"
EXTRACTOR = "chaos-extractor"


@dataclass(slots=True)
class Brought:
    """What was brought in, and what we were told; the keys are names, ids those of documents."""

    made: dict[str, Made] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, list[str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    answers: collections.Counter[str] = field(default_factory=collections.Counter)

    def readable(self, *, slow: bool = False) -> list[str]:
        """Name the documents that can be read, in the order they came; without the slow ones."""
        return [n for n in self.ids if self.made[n].texts and (slow or not self.made[n].slow)]


class Intake:
    """Keeps every lane supplied while it is open; what was begun is brought in all the same."""

    def __init__(self, ground: Ground, maker: Maker, pulse: Pulse) -> None:
        self._ground = ground
        self._maker = maker
        self._pulse = pulse
        self._on_the_way: collections.Counter[str] = collections.Counter()
        self.brought = Brought()
        self.is_open = True
        self.is_done = False

    async def run(self) -> None:
        """Bring documents in until it is closed, or there are as many as were wanted."""
        async with self._opened() as ways, asyncio.TaskGroup() as group:
            for lane, count in _CLIENTS.items():
                for _ in range(count):
                    group.create_task(self._supply(lane, ways))
        self.is_done = True

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[_Ways]:
        chosen = settings.Settings(home=self._ground.place.home, files=str(self._ground.files))
        url = f"{self._ground.local.url()}&application_name={EXTRACTOR}"
        async with (
            self._ground.client() as client,
            await database.connect_direct(url) as link,
            files.open_store(chosen) as store,
        ):
            yield _Ways(client, registry.Registry(link, EXTRACTOR), store, self.brought)

    async def _supply(self, lane: str, ways: _Ways) -> None:
        wanted = self._ground.plan.waiting[lane]
        while self.is_open and len(self.brought.made) < self._ground.plan.documents:
            if self._pulse.waiting[lane] + self._on_the_way[lane] >= wanted:
                await asyncio.sleep(_WAIT_SECONDS)
                continue
            made = self._maker.make(lane)
            self.brought.made |= {one.name: one for one in made}
            self._on_the_way[lane] += len(made)
            try:
                await ways.bring(lane, made)
            finally:
                self._on_the_way[lane] -= len(made)


@dataclass(frozen=True, slots=True)
class _Ways:
    client: httpx.AsyncClient
    extractor: registry.Registry
    store: files.FileStore
    brought: Brought

    async def bring(self, lane: str, made: Sequence[Made]) -> None:
        if lane == "check":
            await self._submit(made)
        elif lane in {"index", "acte"}:
            await self._hand_over(lane, made[0])
        else:
            await self._upload(made[0])

    async def _upload(self, made: Made) -> None:
        file = {"file": (made.name, made.content)}
        answer = await self._post("/functions/v1/upload-to-dropbox", files=file)
        if answer.is_success:
            self.brought.ids[made.name] = answer.json()["document_id"]
        else:
            self.brought.refused.add(made.name)

    async def _submit(self, made: Sequence[Made]) -> None:
        """Submit a job; the key makes the second try the same one."""
        pictures = [("images", (one.name, one.content)) for one in made]
        expected = {one.name: list(one.texts) for one in made if one.texts}
        if expected:
            pictures.append(("references", ("references.json", json.dumps(expected).encode())))
        form = {"language": _LANGUAGE, "idempotency_key": str(uuid.uuid4())}
        answer = await self._post("/jobs", files=pictures, data=form)
        if answer.is_success:
            self.brought.jobs[answer.json()["jobId"]] = [one.name for one in made]
        else:
            self.brought.refused |= {one.name for one in made}

    async def _post(self, path: str, **body: object) -> httpx.Response:
        """Send it until it is taken, or refused for a reason that stays."""
        while True:
            try:
                answer = await self.client.post(path, **body)  # type: ignore[arg-type]
            except httpx.TransportError as exc:
                self.brought.answers[type(exc).__name__] += 1
            else:
                self.brought.answers[str(answer.status_code)] += 1
                if answer.status_code < 500:
                    return answer
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _hand_over(self, lane: str, made: Made) -> None:
        """Do what an extractor does, and after each accident look how far it had come."""
        while True:
            try:
                entry = await self._find(lane, made)
                if entry.status is registry.Status.EN_ATTENTE:
                    await self.extractor.begin(entry.id)
                elif entry.status is registry.Status.EN_TRAITEMENT:
                    await self._attach(entry, made)
                else:
                    self.brought.ids[made.name] = entry.id
                    return
            except (errors.DatabaseAway, errors.Conflict, errors.FileStoreError) as exc:
                self.brought.answers[type(exc).__name__] += 1
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _find(self, lane: str, made: Made) -> registry.Entry:
        where = {"document_name": made.name}
        rows = await self.extractor.database.select(registry.VIEW, where=where)
        if rows:
            return registry.Entry.from_row(rows[0])
        return await self.extractor.enqueue(lane, made.name)

    async def _attach(self, entry: registry.Entry, made: Made) -> None:
        path = f"registry/{entry.id}/{made.name}"

        async def content() -> AsyncIterator[bytes]:
            yield made.content

        with contextlib.suppress(errors.FileExists):
            await self.store.write(path, content())
        await self.extractor.attach(entry.id, path)


# Actions of users ---------------------------------------------------------------------------------
# HAC and the senders of jobs act at random; what they asked for is written down.
#
# What was asked for may have been done even if no answer came. So whatever is cancelled, deleted
# or given up in the end must have been asked for here.


APPLICATION = "chaos-hac"
_RECENT = 60
_SHORT_SECONDS = (1.0, 5.0)
_LETTERS = """
select l.id::text, d.name from public.ocr_dead_letter as l
join public.documents as d on d.id = l.document_id
where d.ocr_status = 'dead_letter' order by l.id
"""
_IN_HAND = "select id::text from public.documents where ocr_status = 'processing' order by id"


class People:
    """Somebody of HAC; asked has by verb what was asked for: ids, of dead letters the names."""

    def __init__(self, ground: Ground, link: database.Database, brought: Brought) -> None:
        self._ground = ground
        self._link = link
        self._brought = brought
        self._chance = ground.plan.chance("what people do")
        self.asked: collections.defaultdict[str, set[str]] = collections.defaultdict(set)
        self.answers: collections.Counter[str] = collections.Counter()

    async def cancel(self) -> None:
        """Cancel a document that came lately."""
        if names := self._brought.readable(slow=True)[-_RECENT:]:
            document = self._brought.ids[self._chance.choice(names)]
            await self._ask("cancel", document, self._link.cancel_document(document_id=document))

    async def read_again(self) -> None:
        """Have a document read again."""
        if names := self._brought.readable():
            await self.have_read(self._brought.ids[self._chance.choice(names)])

    async def have_read(self, document: str) -> None:
        """Have this document read again."""
        await self._ask("read again", document, self._link.read_again(document_id=document))

    async def decide(self) -> None:
        """Requeue a dead letter, or abandon it."""
        if letters := await self._ground.rows(_LETTERS):
            letter = self._chance.choice(letters)
            verb = self._chance.choice(["requeue", "abandon"])
            await self.settle(letter["id"], letter["name"], verb)

    async def settle(self, letter: str, name: str, verb: str) -> None:
        """Carry out a decision about a dead letter."""
        await self._ask(verb, name, self._link.resolve_dead_letter(dlq_id=letter, action=verb))

    async def delete_and_restore(self) -> None:
        """Delete a document; most times it was a mistake."""
        names = self._brought.readable(slow=True)
        if not names:
            return
        document = self._brought.ids[self._chance.choice(names)]
        await self._ask("delete", document, self._link.delete_document(document_id=document))
        if self._chance.random() < 0.7:
            await asyncio.sleep(self._chance.uniform(*_SHORT_SECONDS))
            await self._ask("restore", document, self._link.restore_document(document_id=document))

    async def pause(self) -> None:
        """Pause a lane for a while."""
        lane = self._chance.choice(plan.LANES)
        await self._ask("pause", lane, self._link.pause_lane(lane=lane, reason="for a while"))
        try:
            await asyncio.sleep(self._chance.uniform(*_SHORT_SECONDS))
        finally:
            await self.resume(lane)

    async def resume(self, lane: str) -> None:
        """Have a lane go on, whatever it takes."""
        while await self._ask("resume", lane, self._link.resume_lane(lane=lane)) is None:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.5)

    async def recover(self) -> None:
        """Take a document for stuck that is in the best of hands."""
        if rows := await self._ground.rows(_IN_HAND):
            document = self._chance.choice(rows)["id"]
            call = self._link.recover_stuck_documents(stuck_minutes=0, document_ids=[document])
            await self._ask("recover", document, call)

    async def cancel_job(self) -> None:
        """Cancel a job that came lately, as the one who submitted it does."""
        if jobs := list(self._brought.jobs)[-_RECENT:]:
            job = self._chance.choice(jobs)
            self.asked["cancel job"].add(job)
            with contextlib.suppress(httpx.TransportError):
                async with self._ground.client() as client:
                    answer = await client.delete(f"/jobs/{job}")
                    self.answers[f"cancel job: {answer.status_code}"] += 1

    async def rerun_job(self, job: str | None = None) -> None:
        """Run a job again, all of it or what is missing."""
        if job is None and self._brought.jobs:
            job = self._chance.choice(list(self._brought.jobs))
        if job is not None:
            call = self._link.rerun_check_job(job_id=job, all=self._chance.random() < 0.5)
            await self._ask("run job", job, call)

    async def _ask(
        self, verb: str, what: str, call: Awaitable[Mapping[str, Any]]
    ) -> Mapping[str, Any] | None:
        """Ask for it once; None: nobody knows what became of it."""
        self.asked[verb].add(what)
        try:
            answer = await call
        except (errors.DatabaseAway, errors.Conflict) as exc:
            self.answers[f"{verb}: {type(exc).__name__}"] += 1
            return None
        self.answers[f"{verb}: {answer.get('error') or 'done'}"] += 1
        return answer


@contextlib.asynccontextmanager
async def sign_in_users(ground: Ground, brought: Brought) -> AsyncIterator[People]:
    """Act as the first of HAC."""
    first = "select user_id::text from public.user_roles where role = 'admin' limit 1"
    (row,) = await ground.rows(first)
    url = f"{ground.local.url()}&application_name={APPLICATION}"
    async with await database.connect_direct(url) as link:
        acting = link.acting_as(database.User(row["user_id"]))
        yield People(ground, acting, brought)


# Depth of the queue -------------------------------------------------------------------------------
# How much waits in each lane, and when the database did not answer.


_SECONDS = 0.25
_STATEMENT_SECONDS = 3.0
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


class Pulse:
    """What the database said last; an outage is noted once it is over."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._heard = time.time()
        self.completed = 0
        self.waiting: collections.Counter[str] = collections.Counter()

    async def feel(self) -> None:
        """Ask again and again, for ever."""
        while True:
            try:
                async with await self._ground.connect() as conn:
                    while True:
                        await self._ask(conn)
                        await asyncio.sleep(_SECONDS)
            except (psycopg.OperationalError, TimeoutError):
                await asyncio.sleep(_SECONDS)

    async def _ask(self, conn: psycopg.AsyncConnection[dict[str, Any]]) -> None:
        async with asyncio.timeout(_STATEMENT_SECONDS):
            row = await (await conn.execute(_COUNT)).fetchone()
        assert row is not None  # noqa: S101  # there is always one
        now = time.time()
        if now - self._heard > _STATEMENT_SECONDS:
            self._ground.journal.outages.append(event_log.Span(self._heard, now))
        self._heard = now
        self.completed = row["completed"]
        self.waiting = collections.Counter(row["waiting"])
