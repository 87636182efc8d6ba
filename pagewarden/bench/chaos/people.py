"""HAC, and those who submit jobs, acting at random: what they asked for is written down.

What was asked for may have been done even if no answer came. So whatever is cancelled, deleted
or given up in the end must have been asked for here.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from typing import TYPE_CHECKING, Any

import httpx

from pagewarden import database, errors
from pagewarden.bench.chaos import plans

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Mapping

    from pagewarden.bench.chaos.ground import Ground
    from pagewarden.bench.chaos.intake import Brought

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
        lane = self._chance.choice(plans.LANES)
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
async def signed_in(ground: Ground, brought: Brought) -> AsyncIterator[People]:
    """Act as the first of HAC."""
    first = "select user_id::text from public.user_roles where role = 'admin' limit 1"
    (row,) = await ground.rows(first)
    url = f"{ground.local.url()}&application_name={APPLICATION}"
    async with await database.connect_direct(url) as link:
        acting = link.acting_as(database.User(row["user_id"]))
        yield People(ground, acting, brought)
