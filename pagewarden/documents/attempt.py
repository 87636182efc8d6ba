"""Attempt: read a document under its lease, save its pages, and complete it.

The process may be killed at any instruction: its lock expires, and the pages it saved remain.
Database calls are retried during a database outage. They carry the lock token, so repeating one is
harmless: if the first call succeeded, the second returns LOCK_LOST and changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import leases
from pagewarden.database.retry import retry_until_available
from pagewarden.documents import lanes
from pagewarden.documents.claim import Outcome, Page, require_lock
from pagewarden.documents.lease import DocumentLease
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from pagewarden.database import Database
    from pagewarden.documents.claim import Claim, ReaderSelector, ReadingRun

log = structlog.get_logger(__name__)

# Pages read but not yet saved; a crash loses at most these and those being read.
MAX_UNSAVED_PAGES = 16
# A thread that fetches a file may end late; the document is given back without it, because a server
# that shuts down is killed after 10 s. What it still saves is refused.
CANCEL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Yielded:
    """The reading ended early, because of other work."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a claimed document.

    After a page that is not the last one, find_reason_to_yield may end the attempt, once it has
    saved a page: the document is released, uncounted, and a later attempt reads what is missing.
    """

    claim: Claim
    database: Database
    reader: ReaderSelector
    lock_seconds: float
    heartbeat_seconds: float
    find_reason_to_yield: Callable[[], Awaitable[str | None]]

    async def run(self, stop: asyncio.Event) -> Outcome:
        """Read the document while sending heartbeats; release it if `stop` is set.

        Errors of the document or its reader are stored in the database; only errors of the
        database are raised.
        """
        lease = DocumentLease(self.claim, self.database, self.lock_seconds)
        runner = leases.LeaseRunner(
            lease,
            self._read,
            self._complete,
            heartbeat_seconds=self.heartbeat_seconds,
            cancel_seconds=CANCEL_SECONDS,
            stop_seconds=self.lock_seconds,
        )
        return await runner.run(stop)

    async def _read(self) -> lanes.ReadingResult | Yielded:
        started_at = time.monotonic()
        reader = await self.reader.select_reader(self.claim)
        run = await reader.get_run(self.claim)
        structlog.contextvars.bind_contextvars(engine=run.engine)  # in this task only
        saved = await self._save_pages(run, [])
        seen, gained = set(saved), 0  # failed pages are seen, but not gained
        page_count = max(saved, default=0)
        is_resumed = bool(saved)
        confidences: list[float] = []
        pages = reader.read(self.claim, frozenset(saved))
        async with contextlib.aclosing(buffer_pages(pages)) as batches:
            async for batch in batches:
                with tracing.span("save", pages=len(batch)):
                    saved = await self._save_pages(run, batch)
                page_count = max(page_count, *saved, *(page.of or page.number for page in batch))
                confidences += [page.confidence for page in batch if page.confidence is not None]
                seen.update(page.number for page in batch)
                gained += sum(page.status != "failed" for page in batch)
                # Without a gained page, the next attempt would start where this one did.
                may_yield = gained > 0 and len(seen) < page_count
                if may_yield and (reason := await self.find_reason_to_yield()):
                    return Yielded(reason)
        # The database knows the confidence of all pages.
        known = [] if is_resumed else confidences
        return lanes.ReadingResult(run, len(saved), page_count, known, started_at)

    async def _save_pages(self, run: ReadingRun, pages: Sequence[Page]) -> list[int]:
        """Save pages, and return the numbers of all pages that this run has saved."""
        answer = await retry_until_available(
            self.database.save_document_pages,
            document_id=self.claim.id,
            lock_token=self.claim.lock_token,
            pages=[page.as_json() for page in pages],
            engine=run.engine,
            version=run.version,
            profile=run.profile,
            page_count=pages[-1].of if pages else None,
        )
        require_lock(answer)
        for page in pages:
            metrics.current().pages.labels(self.claim.lane, page.status).inc()
        return answer["saved"] or []

    async def _complete(self, result: lanes.ReadingResult | Yielded) -> Outcome:
        if isinstance(result, Yielded):
            lease = DocumentLease(self.claim, self.database, self.lock_seconds)
            return await lease.release(result.reason)
        structlog.contextvars.bind_contextvars(engine=result.run.engine)  # in this task only
        complete = lanes.find_completer(self.claim.lane)
        tracing.set_attributes(engine=result.run.engine, pages=result.saved_pages)
        with tracing.span("complete", pages=result.saved_pages):
            answer = await complete(self.database, self.claim, result)
        require_lock(answer)
        if not answer["success"]:
            # The database has counted the attempt; the next one reads exactly what is missing.
            error, missing = answer["error"], answer.get("missing")
            log.warning(str(error).lower(), pages=result.saved_pages, missing=missing)
            return Outcome.FAILED
        seconds = time.monotonic() - result.started_at
        log.info("document_completed", pages=result.saved_pages, seconds=round(seconds, 3))
        return Outcome.COMPLETED


_PageQueue = asyncio.Queue["Page | Exception | None"]
"""Pages, followed by an error, or by None at the end."""


async def buffer_pages(pages: AsyncGenerator[Page]) -> AsyncGenerator[list[Page]]:
    """Read ahead while the caller saves; yield all pages read meanwhile as one batch.

    An error is raised after all pages before it have been yielded.
    """
    queue: _PageQueue = asyncio.Queue(MAX_UNSAVED_PAGES)
    filling = asyncio.create_task(_fill(queue, pages))
    try:
        has_more = True
        while has_more:
            batch, error, has_more = await _next_batch(queue)
            if batch:
                yield batch
            if error is not None:
                raise error
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)


async def _fill(queue: _PageQueue, pages: AsyncGenerator[Page]) -> None:
    try:
        async with contextlib.aclosing(pages):
            async for page in pages:
                await queue.put(page)
    except Exception as exc:  # noqa: BLE001  # buffer_pages raises it
        await queue.put(exc)
    else:
        await queue.put(None)


async def _next_batch(queue: _PageQueue) -> tuple[list[Page], Exception | None, bool]:
    """Wait for a page and return all available ones, the error, and whether more may follow."""
    batch: list[Page] = []
    while not batch or not queue.empty():
        item = await queue.get()
        if item is None or isinstance(item, Exception):
            return batch, item, False
        batch.append(item)
    return batch, None, True
