"""Worker: claim documents, and process or dispatch them; sweep."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.database.listener import Listener
from pagewarden.database.retry import call_periodically, retry_on_conflict
from pagewarden.documents.attempt import Attempt
from pagewarden.documents.claim import Claim, Outcome
from pagewarden.documents.dispatch import RemoteAttempt
from pagewarden.documents.lease import acquire_claim
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pagewarden.database import Database
    from pagewarden.documents.claim import ReaderSelector
    from pagewarden.documents.function_caller import FunctionCaller

log = structlog.get_logger(__name__)

IDLE_SECONDS = 1.0
MAX_GIVEN_BACK_ROUNDS = 10
CAPACITY = "capacity"
"""Subscription of all workers: notified when a worker that waits for capacity may continue."""
# No claims after this share of the budget: the document would only be released at the end.
CLAIMING_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Worker:
    """Claims and processes documents of its lanes, which are in order of preference.

    budget_seconds limits run() or drain(): towards the end the worker stops claiming, and at the
    end it releases its document. drain() processes up to `concurrency` documents at once. With a
    caller, functions read the documents instead of this process.
    """

    database: Database
    reader: ReaderSelector
    worker_id: str
    lanes: Sequence[str]
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = IDLE_SECONDS
    budget_seconds: float | None = None
    listener: Listener = field(default_factory=Listener)
    concurrency: int = 1
    caller: FunctionCaller | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Process documents until `stop` is set; then release the current one, uncounted."""
        with self._log_context(), self.listener.subscribe([*self.lanes, CAPACITY]) as wake_up:
            async with self._time_budget(stop) as budget:
                while budget.can_claim:
                    wake_up.clear()
                    if not await self.process_next(budget.expired):
                        await concurrency.wait(wake_up, budget.expired, seconds=self.idle_seconds)

    async def drain(self, stop: asyncio.Event) -> collections.Counter[Outcome]:
        """Process documents until none is left or `stop` is set; count the outcomes."""
        outcomes: collections.Counter[Outcome] = collections.Counter()
        running: set[asyncio.Task[Outcome]] = set()
        with self._log_context():
            try:
                async with self._time_budget(stop) as budget:
                    while True:
                        free = self._count_free_slots(budget, outcomes, len(running))
                        claims = await self.claim_next(free) if free else []
                        running |= {
                            asyncio.create_task(self.process(claim, budget.expired))
                            for claim in claims
                        }
                        if not running:
                            return outcomes
                        # Documents that arrive meanwhile get the free slots.
                        done, running = await asyncio.wait(
                            running,
                            return_when=asyncio.FIRST_COMPLETED,
                            timeout=self.idle_seconds if free > len(claims) else None,
                        )
                        outcomes.update(task.result() for task in done)
            finally:
                await concurrency.cancel_all(list(running))

    def _count_free_slots(
        self, budget: TimeBudget, outcomes: collections.Counter[Outcome], running: int
    ) -> int:
        """Return how many documents may be claimed; none after a function could not be called."""
        if not budget.can_claim:
            return 0
        if self.caller is not None:
            # A disabled function gives documents back; a backlog of them must come to an end.
            is_idling = outcomes[Outcome.GIVEN_BACK] > MAX_GIVEN_BACK_ROUNDS * self.concurrency
            if is_idling or self.caller.problem is not None:
                return 0
        # Invocations whose answer was lost are still reading.
        return max(0, self.concurrency - running - outcomes[Outcome.HANDED_OVER])

    async def process_next(self, stop: asyncio.Event) -> bool:
        """Claim and process a document; return whether there was one."""
        claims = await self.claim_next()
        for claim in claims:
            await self.process(claim, stop)
        return bool(claims)

    async def process_within_budget(self, claim: Claim, stop: asyncio.Event) -> Outcome:
        """Process a document that the caller has claimed; release it when the budget expires."""
        async with self._time_budget(stop) as budget:
            return await self.process(claim, budget.expired)

    async def process(self, claim: Claim, stop: asyncio.Event) -> Outcome:
        """Run one attempt at a claimed document; release it if `stop` is set."""
        if self.caller is not None:
            return await self._dispatch(claim, self.caller, stop)
        attempt = Attempt(
            claim,
            self.database,
            self.reader,
            self.lock_seconds,
            self.heartbeat_seconds,
            functools.partial(self.find_reason_to_yield, claim),
        )
        with self._log_context(claim), _attempt_timer(claim.lane), tracing.span("attempt"):
            outcome = await self._run(attempt, stop)
        metrics.current().documents.labels(claim.lane, outcome).inc()
        return outcome

    async def find_reason_to_yield(self, claim: Claim) -> str | None:
        """Return why the document is released after this page; None to continue reading."""
        del claim
        return None

    async def _dispatch(self, claim: Claim, caller: FunctionCaller, stop: asyncio.Event) -> Outcome:
        """Hand a claimed document over; the invocation that reads it measures the attempt."""
        attempt = RemoteAttempt(
            claim, self.database, caller, self.lock_seconds, self.heartbeat_seconds
        )
        with self._log_context(claim), tracing.span("dispatch"):
            return await self._run(attempt, stop)

    async def _run(self, attempt: Attempt | RemoteAttempt, stop: asyncio.Event) -> Outcome:
        try:
            outcome = await attempt.run(stop)
        except errors.DatabaseError as exc:
            # Other documents are not affected; sweep reclaims this one when its lock expires.
            log.exception("attempt_lost", error=str(exc))
            outcome = Outcome.LOST
        tracing.set_attributes(outcome=outcome)
        return outcome

    async def claim_next(
        self, limit: int = 1, *, lanes: Sequence[str] | None = None
    ) -> list[Claim]:
        """Claim documents; if there are none, subscribe to the lanes and claim again."""
        lanes = self.lanes if lanes is None else lanes
        try:
            if claims := await self.claim_batch(lanes, limit):
                return claims
            await self.database.wait_for_documents(lanes=list(lanes))
            return await self.claim_batch(lanes, limit)
        except (errors.DatabaseUnavailable, errors.Conflict) as exc:
            log.warning("claim_failed", error=str(exc))
            return []

    async def acquire(self, document_id: str) -> Claim:
        """Claim one known document; see `acquire_claim`."""
        return await acquire_claim(
            self.database,
            document_id,
            worker_id=self.worker_id,
            lock_seconds=self.lock_seconds,
        )

    async def claim_batch(self, lanes: Sequence[str], limit: int) -> list[Claim]:
        """Claim the next documents of these lanes, up to the limit."""
        began = tracing.now()
        rows = await retry_on_conflict(
            functools.partial(
                self.database.claim_documents,
                worker_id=self.worker_id,
                lanes=list(lanes),
                limit=limit,
                lock_timeout=round(self.lock_seconds),
            ),
            database=self.database,
        )
        claims = [Claim.from_row(row) for row in rows]
        for claim in claims:
            metrics.current().claims.labels(claim.lane).inc()
            with self._log_context(claim):
                log.debug("document_claimed")
                tracing.record_span("claim", began)
        return claims

    @contextlib.contextmanager
    def _log_context(self, claim: Claim | None = None) -> Iterator[None]:
        """Add worker, document and check job to all log lines and spans within."""
        context: dict[str, object] = {"worker": self.worker_id}
        if claim is not None:
            context |= {"document": claim.id, "lane": claim.lane, "attempt": claim.attempts}
            if claim.job_id is not None:
                context["job"] = claim.job_id
        with structlog.contextvars.bound_contextvars(**context):
            yield

    @contextlib.asynccontextmanager
    async def _time_budget(self, stop: asyncio.Event) -> AsyncIterator[TimeBudget]:
        budget = TimeBudget(self.budget_seconds)
        expiry = asyncio.create_task(budget.expire(stop))
        try:
            yield budget
        finally:
            expiry.cancel()
            await asyncio.gather(expiry, return_exceptions=True)


@contextlib.contextmanager
def _attempt_timer(lane: str) -> Iterator[None]:
    current, began = metrics.current(), time.monotonic()
    with current.in_hand.labels(lane).track_inprogress():
        yield
    current.document_seconds.labels(lane).observe(time.monotonic() - began)


class TimeBudget:
    """The time that a worker has; `expired` is set at its end, or when the worker is stopped."""

    def __init__(self, seconds: float | None) -> None:
        self.expired = asyncio.Event()
        self._seconds = seconds
        self._started_at = asyncio.get_running_loop().time()

    @property
    def can_claim(self) -> bool:
        """Tell whether there is time left for another document."""
        elapsed = asyncio.get_running_loop().time() - self._started_at
        is_late = self._seconds is not None and elapsed >= CLAIMING_SHARE * self._seconds
        return not self.expired.is_set() and not is_late

    async def expire(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set or the time is up, and set `expired`."""
        await concurrency.wait(stop, seconds=self._seconds)
        self.expired.set()


async def run_workers(workers: Sequence[Worker], stop: asyncio.Event) -> None:
    """Run workers concurrently; when one fails, stop the others and raise its error."""

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


async def sweep_periodically(database: Database, stop: asyncio.Event, *, seconds: float) -> None:
    """Reclaim documents with expired locks at this interval until `stop` is set."""
    await call_periodically("sweep_documents", database.sweep_documents, stop, seconds=seconds)
