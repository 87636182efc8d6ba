"""A worker: takes documents of its lanes, one after the other."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors, waking
from pagewarden.documents import attempts, claims, reporting
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pagewarden.database import Database

log = structlog.get_logger(__name__)

IDLE_SECONDS = 1.0
# Whatever is claimed in the last part of the time would only be given back.
CLAIMING_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Worker:
    """Serves lanes, in order of preference.

    budget_seconds is how long run() or drain() may take: towards the end nothing more is claimed,
    and at the end what is unfinished is given back.
    """

    database: Database
    reader: claims.Reader
    worker_id: str
    lanes: Sequence[str]
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = IDLE_SECONDS
    budget_seconds: float | None = None
    hints: waking.Hints = field(default_factory=waking.Hints)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until stop is set; then give back what is in hand, uncounted."""
        seen = reporting.reported(self.database, self.worker_id, self.lanes)
        with self._named(), self.hints.bell(self.lanes) as bell:
            async with seen, self._shift(stop) as shift:
                while shift.goes_on:
                    bell.clear()
                    if not await self.serve(shift.over):
                        await concurrency.wait(bell, shift.over, seconds=self.idle_seconds)

    async def serve(self, over: asyncio.Event) -> bool:
        """Read the next document, if there is one; over makes us give it back."""
        claim = await self._find()
        if claim is not None:
            await self.work_on(claim, over)
        return claim is not None

    async def drain(self, stop: asyncio.Event) -> collections.Counter[attempts.Outcome]:
        """Work until nothing is left to do or stop is set; count how the attempts ended."""
        outcomes: collections.Counter[attempts.Outcome] = collections.Counter()
        with self._named():
            async with self._shift(stop) as shift:
                while shift.goes_on and (claim := await self._find()) is not None:
                    outcomes[await self.work_on(claim, shift.over)] += 1
        return outcomes

    async def work_on(self, claim: claims.Claim, stop: asyncio.Event) -> attempts.Outcome:
        """Read a document that has been claimed; stop makes us give it back."""
        with self._about(claim), _measured(claim.lane), tracing.span("attempt"):
            outcome = await self._attempt(claim, stop)
            tracing.set_attributes(outcome=outcome)
        metrics.current().documents.labels(claim.lane, outcome).inc()
        return outcome

    async def _attempt(self, claim: claims.Claim, stop: asyncio.Event) -> attempts.Outcome:
        attempt = attempts.Attempt(
            claim, self.database, self.reader, self.lock_seconds, self.heartbeat_seconds
        )
        try:
            return await attempt.make(stop)
        except errors.DatabaseError as exc:
            # Others go on; this one is found by the sweep when its lock has expired.
            log.exception("attempt_lost", error=str(exc))
            return attempts.Outcome.LOST

    async def work_claimed(self, claim: claims.Claim, stop: asyncio.Event) -> attempts.Outcome:
        """Read a document that somebody claimed for us, within the budget, or until stop is set."""
        async with self._shift(stop) as shift:
            return await self.work_on(claim, shift.over)

    async def _find(self) -> claims.Claim | None:
        """Claim a document; when there is none, ask for a hint and look once more."""
        try:
            if (claim := await self.claim(self.lanes)) is not None:
                return claim
            await self.database.wait_for_documents(lanes=list(self.lanes))
            return await self.claim(self.lanes)
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("claim_failed", error=str(exc))
            return None

    async def claim(self, lanes: Sequence[str]) -> claims.Claim | None:
        """Claim the next document of the first of these lanes that has one."""
        began = tracing.now()
        rows = await self.database.claim_documents(
            worker_id=self.worker_id,
            lanes=list(lanes),
            limit=1,
            lock_timeout=round(self.lock_seconds),
        )
        if not rows:
            return None
        claim = claims.Claim.from_row(rows[0])
        metrics.current().claims.labels(claim.lane).inc()
        with self._about(claim):
            log.debug("claimed")
            tracing.record_span("claim", began)
        return claim

    def _named(self) -> contextlib.AbstractContextManager[None]:
        """Have the worker's name on every line meanwhile."""
        return structlog.contextvars.bound_contextvars(worker=self.worker_id)

    def _about(self, claim: claims.Claim) -> contextlib.AbstractContextManager[None]:
        """Say on every line, and of every span, which document it is about, and who is at it."""
        return structlog.contextvars.bound_contextvars(
            worker=self.worker_id, document=claim.id, lane=claim.lane, attempt=claim.attempts
        )

    @contextlib.asynccontextmanager
    async def _shift(self, stop: asyncio.Event) -> AsyncIterator[_Shift]:
        shift = _Shift(asyncio.Event(), self.budget_seconds)
        ending = asyncio.create_task(shift.end(stop))
        try:
            yield shift
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)


async def side_by_side(workers: Sequence[Worker], stop: asyncio.Event) -> None:
    """Run them side by side; when one cannot go on, all give back what they have."""

    async def run(worker: Worker) -> None:
        try:
            await worker.run(stop)
        except Exception:
            stop.set()
            raise

    ends = await asyncio.gather(*map(run, workers), return_exceptions=True)
    for end in ends:
        if end is not None:
            raise end


@contextlib.contextmanager
def _measured(lane: str) -> Iterator[None]:
    counted, began = metrics.current(), time.monotonic()
    with counted.in_hand.labels(lane).track_inprogress():
        yield
    counted.document_seconds.labels(lane).observe(time.monotonic() - began)


class _Shift:
    """The time a worker has; over is set when it is told to stop, or its budget is used up."""

    def __init__(self, over: asyncio.Event, budget_seconds: float | None) -> None:
        self.over = over
        self._budget = budget_seconds
        self._begin = asyncio.get_running_loop().time()

    @property
    def goes_on(self) -> bool:
        """Tell whether it is worth while to claim another document."""
        used = asyncio.get_running_loop().time() - self._begin
        late = self._budget is not None and used >= CLAIMING_SHARE * self._budget
        return not self.over.is_set() and not late

    async def end(self, stop: asyncio.Event) -> None:
        """Wait for the order to stop, as long as the budget lasts."""
        await concurrency.wait(stop, seconds=self._budget)
        self.over.set()
