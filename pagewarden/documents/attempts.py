"""One attempt at one document, from the claim to its end.

The process may be killed at any instruction. While it lives it sends heartbeats; what it cannot
finish it releases, and what it read stays. The reader does the reading.

Calls are made until the database is there again. They carry the lock token, so making one a second
time does no harm: if the first got through after all, the answer is LOCK_LOST and the document is
where it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from pagewarden import errors
from pagewarden.database import persistence
from pagewarden.documents import batches, checking, claims, manners
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pagewarden.database import Database

    Complete = Callable[..., Awaitable[Mapping[str, Any]]]

log = structlog.get_logger(__name__)

LONGEST_RETRY_SECONDS = 86_400
_FAILED_ATTEMPTS = frozenset({"TOO_MANY_FAILED_PAGES", "PAGES_MISSING"})


class Outcome(enum.StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    GIVEN_BACK = "given_back"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A document in our hands, and all that is needed to read it."""

    claim: claims.Claim
    database: Database
    reader: claims.Reader
    lock_seconds: float
    heartbeat_seconds: float

    async def make(self, stop: asyncio.Event) -> Outcome:
        """Read the document, side by side with its heartbeat and the order to stop.

        Whatever is wrong with the document, or its reader, ends up in the database; what the
        database refuses is raised.
        """
        reading = asyncio.create_task(self._read())
        heartbeat = asyncio.create_task(self._keep_alive())
        stopping = asyncio.create_task(stop.wait())
        tasks = {reading, heartbeat, stopping}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                error = reading.exception()
                return reading.result() if error is None else await self._report(error)
            if heartbeat.done():
                return self._lost()
            return await self._stop()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> Outcome:
        started = time.monotonic()
        run = await self.reader.run_for(self.claim)
        structlog.contextvars.bind_contextvars(engine=run.engine)  # of this task only
        saved = await self._save(run, [])
        # The completion says how many pages we know of: after a failover the database may not.
        page_count = max(saved, default=0)
        confidences: list[float] = []
        pages = self.reader.read(self.claim, frozenset(saved))
        async with contextlib.aclosing(batches.of_pages(pages)) as found:
            async for batch in found:
                with tracing.span("save", pages=len(batch)):
                    saved = await self._save(run, batch)
                page_count = max(page_count, *saved, *(page.of or page.number for page in batch))
                confidences += [page.confidence for page in batch if page.confidence is not None]
        tracing.set_attributes(engine=run.engine, pages=len(saved))
        with tracing.span("complete", pages=len(saved)):
            complete = await self._completion(len(saved))
            seconds = time.monotonic() - started
            answer = await persistence.persist(
                complete,
                confidence=sum(confidences) / len(confidences) if confidences else None,
                processing_time_ms=round(seconds * 1000),
                engine=run.engine,
                version=run.version,
                profile=run.profile,
                page_count=page_count or None,
            )
        if not _is_done(answer):
            # The attempt is counted, and the next one reads exactly what is missing.
            error, missing = answer["error"], answer.get("missing")
            log.warning(str(error).lower(), pages=len(saved), missing=missing)
            return Outcome.FAILED
        log.info("completed", pages=len(saved), seconds=round(seconds, 3))
        return Outcome.COMPLETED

    async def _completion(self, pages: int) -> Complete:
        """Choose the call that completes the document, and give it the result."""
        if self.claim.lane == manners.CHECK:
            asked = await persistence.persist(
                self.database.get_check, document_id=self.claim.id, lock_token=self.claim.lock_token
            )
            _is_done(asked)
            if asked["images"]:
                return functools.partial(
                    self.database.complete_check,
                    document_id=self.claim.id,
                    lock_token=self.claim.lock_token,
                    results=await checking.results(asked),
                )
        return functools.partial(
            self.database.process_ocr_atomic,
            document_id=self.claim.id,
            lock_token=self.claim.lock_token,
            ocr_data={"pages_read": pages},
        )

    async def _save(self, run: claims.Run, pages: Sequence[claims.Page]) -> list[int]:
        answer = await persistence.persist(
            self.database.save_document_pages,
            document_id=self.claim.id,
            lock_token=self.claim.lock_token,
            pages=[page.as_json() for page in pages],
            engine=run.engine,
            version=run.version,
            profile=run.profile,
            page_count=pages[-1].of if pages else None,
        )
        _is_done(answer)
        for page in pages:
            metrics.current().pages.labels(self.claim.lane, page.status).inc()
        return answer["saved"] or []

    async def _keep_alive(self) -> None:
        """Send heartbeats; returns when the document is no longer ours."""
        while True:
            await asyncio.sleep(self.heartbeat_seconds)
            answer = await persistence.persist(
                self.database.extend_document_lock,
                document_id=self.claim.id,
                lock_token=self.claim.lock_token,
                lock_timeout=round(self.lock_seconds),
            )
            if not answer["success"]:
                return
            metrics.current().heartbeats.inc()

    async def _report(self, error: BaseException) -> Outcome:
        """Tell the database why the reading ended."""
        if isinstance(error, errors.LockLost):
            return self._lost()
        known = error if isinstance(error, errors.PagewardenError) else None
        # Where an error of ours came from is said by its class; of any other, nobody knows.
        trace = None if known else error
        words = errors.in_words(error)
        log.warning("reading_failed", type=type(error).__name__, error=words, exc_info=trace)
        tracing.set_attributes(error=type(error).__name__)
        if known and known.outage:
            return await self._give_back(words, outage=True)
        answer = await persistence.persist(
            self.database.fail_document,
            document_id=self.claim.id,
            lock_token=self.claim.lock_token,
            error_message=words,
            error_details={"type": type(error).__name__},
            error_category=str(known.category if known else errors.Category.UNKNOWN),
            retry_after=_retry_after(error),
        )
        return Outcome.FAILED if answer["success"] else self._lost()

    async def _stop(self) -> Outcome:
        """Give the document back; where the database is away, its lock has to expire instead."""
        try:
            async with asyncio.timeout(self.lock_seconds):
                return await self._give_back("the worker stops", outage=False)
        except TimeoutError:
            return Outcome.LOST

    async def _give_back(self, reason: str, *, outage: bool) -> Outcome:
        held = {"document_id": self.claim.id, "lock_token": self.claim.lock_token}
        answer = await persistence.persist(
            self.database.release_documents, documents=[held], reason=reason, outage=outage
        )
        if not answer["success"]:
            return self._lost()
        if answer["failed"]:  # other documents do not meet this outage
            return Outcome.FAILED
        log.info("given_back", reason=reason)
        return Outcome.GIVEN_BACK

    def _lost(self) -> Outcome:
        log.warning("lock_lost")
        metrics.current().lock_losses.labels(self.claim.lane).inc()
        return Outcome.LOST


def _is_done(answer: Mapping[str, object]) -> bool:
    """Tell a success from a failure that the database has counted; raises LockLost."""
    if not answer["success"] and answer["error"] not in _FAILED_ATTEMPTS:
        raise errors.LockLost(f"{answer['error']}: {answer['message']}")
    return bool(answer["success"])


def _retry_after(error: BaseException) -> int | None:
    wanted = error.retry_after if isinstance(error, errors.RateLimited) else None
    return None if wanted is None else min(math.ceil(max(wanted, 0)), LONGEST_RETRY_SECONDS)
