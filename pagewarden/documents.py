"""A worker: claim a document, read it, save its pages as they come, complete it.

It may be killed at any instruction. While it lives it sends heartbeats; what it cannot finish it
gives back, and what it read stays. Reading itself is somebody else's business, see Reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from pagewarden.database import Database

log = structlog.get_logger(__name__)

IDLE_SECONDS = 1.0
RECONNECT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Claim:
    """A document in our hands, and the token that proves it."""

    id: str
    lock_token: str
    name: str
    lane: str
    path: str | None
    engine: str | None
    language: str | None
    profile: str | None
    attempts: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Claim:
        """Make it from what claim_documents returns."""
        return cls(
            id=row["id"],
            lock_token=row["lock_token"],
            name=row["name"],
            lane=row["lane"],
            path=row["dropbox_path"],
            engine=row["engine"],
            language=row["language"],
            profile=row["profile"],
            attempts=row["attempts"],
        )


@dataclass(frozen=True, slots=True)
class Run:
    """What reads: pages of one run never mix with those of another."""

    engine: str
    version: str
    profile: str = "balanced"


@dataclass(frozen=True, slots=True)
class Page:
    """What was read from a page. Numbers start at 1, confidence is 0 to 1, boxes are pixels."""

    number: int
    text: str = ""
    status: str = "read"
    confidence: float | None = None
    lines: Sequence[Mapping[str, Any]] = ()
    width: int | None = None
    height: int | None = None
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Give it the form save_document_pages takes."""
        return {
            "page_number": self.number,
            "text": self.text,
            "status": self.status,
            "confidence": self.confidence,
            "lines": list(self.lines),
            "width": self.width,
            "height": self.height,
            "error": self.error,
        }


class Reader(Protocol):
    """Whatever can read documents.

    Errors say what becomes of the document: an outage gives it back uncounted, everything else
    is a failed attempt of the error's category.
    """

    def run_for(self, claim: Claim) -> Run:
        """Name the run this document is read in."""
        ...

    def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Read the pages one by one, without those that an earlier attempt has done."""
        ...


@dataclass(frozen=True, slots=True)
class Worker:
    """Serves lanes, in order of preference, until it is told to stop."""

    database: Database
    reader: Reader
    worker_id: str
    lanes: Sequence[str]
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = IDLE_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Work until stop is set; then give back what is in hand, uncounted."""
        while not stop.is_set():
            claim = await self._claim()
            if claim is None:
                await _wait(stop, self.idle_seconds)
            else:
                await self._work_on(claim, stop)

    async def _claim(self) -> Claim | None:
        try:
            rows = await self.database.rpc(
                "claim_documents",
                p_worker_id=self.worker_id,
                p_lanes=list(self.lanes),
                p_limit=1,
                p_lock_timeout=round(self.lock_seconds),
            )
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("claim_failed", worker=self.worker_id, error=str(exc))
            return None
        return Claim.from_row(rows[0]) if rows else None

    async def _work_on(self, claim: Claim, stop: asyncio.Event) -> None:
        """Read one document, side by side with its heartbeat and the order to stop."""
        bound = log.bind(document=claim.id, worker=self.worker_id, attempt=claim.attempts)
        reading = asyncio.create_task(self._read(claim))
        heartbeat = asyncio.create_task(self._keep_alive(claim))
        stopping = asyncio.create_task(stop.wait())
        tasks = {reading, heartbeat, stopping}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await self._report(claim, reading.exception())
            elif heartbeat.done():
                bound.warning("lock_lost")
            else:
                await self._give_back(claim, "the worker stops", outage=False)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, claim: Claim) -> None:
        started = time.monotonic()
        run = self.reader.run_for(claim)
        saved = await self._save(claim, run, [])
        done = frozenset(saved)
        confidences = []
        async with contextlib.aclosing(self.reader.read(claim, done)) as pages:
            async for page in pages:
                saved = await self._save(claim, run, [page])
                if page.confidence is not None:
                    confidences.append(page.confidence)
        answer = await self._persist(
            "process_ocr_atomic",
            p_document_id=claim.id,
            p_ocr_data={"pages_read": len(saved)},
            p_confidence=sum(confidences) / len(confidences) if confidences else None,
            p_processing_time_ms=round((time.monotonic() - started) * 1000),
            p_lock_token=claim.lock_token,
            p_engine=run.engine,
            p_version=run.version,
            p_profile=run.profile,
        )
        _require_lock(answer)

    async def _save(self, claim: Claim, run: Run, pages: Sequence[Page]) -> list[int]:
        answer = await self._persist(
            "save_document_pages",
            p_document_id=claim.id,
            p_lock_token=claim.lock_token,
            p_pages=[page.as_json() for page in pages],
            p_engine=run.engine,
            p_version=run.version,
            p_profile=run.profile,
        )
        _require_lock(answer)
        numbers: list[int] = answer["saved"]
        return numbers

    async def _keep_alive(self, claim: Claim) -> None:
        """Send heartbeats; returns when the document is no longer ours."""
        while True:
            await asyncio.sleep(self.heartbeat_seconds)
            answer = await self._persist(
                "extend_document_lock",
                p_document_id=claim.id,
                p_lock_token=claim.lock_token,
                p_lock_timeout=round(self.lock_seconds),
            )
            if not answer["success"]:
                return

    async def _report(self, claim: Claim, error: BaseException | None) -> None:
        """Tell the database how the reading ended; a success it knows already."""
        if error is None or isinstance(error, errors.LockLost):
            return
        log.warning("reading_failed", document=claim.id, worker=self.worker_id, error=_say(error))
        category = errors.Category.UNKNOWN
        if isinstance(error, errors.PagewardenError):
            if error.outage:
                await self._give_back(claim, _say(error), outage=True)
                return
            category = error.category
        await self._persist(
            "fail_document",
            p_document_id=claim.id,
            p_lock_token=claim.lock_token,
            p_error_message=_say(error),
            p_error_details={"type": type(error).__name__},
            p_error_category=str(category),
        )

    async def _give_back(self, claim: Claim, reason: str, *, outage: bool) -> None:
        await self._persist(
            "release_documents",
            p_documents=[{"document_id": claim.id, "lock_token": claim.lock_token}],
            p_reason=reason,
            p_outage=outage,
        )

    async def _persist(self, name: str, **params: object) -> Any:  # noqa: ANN401  # JSON
        """Call until the database is there again.

        Calls carry the token, so making one a second time does no harm: if the first got
        through after all, the answer is LOCK_LOST and the document is where it should be.
        """
        return await _until_back(lambda: self.database.rpc(name, **params))


async def _until_back(call: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401  # JSON
    while True:
        try:
            return await call()
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("database_away", error=str(exc))
            await asyncio.sleep(RECONNECT_SECONDS)


def _require_lock(answer: Mapping[str, Any]) -> None:
    if not answer["success"] and answer["error"] != "TOO_MANY_FAILED_PAGES":
        raise errors.LockLost(f"{answer['error']}: {answer.get('message')}")


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
