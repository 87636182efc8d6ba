"""DocumentLease: the calls of a claimed document; acquire_claim and adopt_claim obtain one claim.

Workers claim in batches (`Worker.claim_batch`). One known document is locked by acquire_claim; a
document that a dispatcher has claimed is handed over as id and lock token: adopt_claim looks it up,
and begin_claim tells the dispatcher that it is being read.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.database import answers, tables
from pagewarden.database.retry import retry_until_available
from pagewarden.documents.claim import Claim, Outcome, require_lock
from pagewarden.telemetry import metrics, tracing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pagewarden.database import Database
    from pagewarden.leases import Failure

log = structlog.get_logger(__name__)

MAX_RETRY_SECONDS = 86_400
DISABLED_SECONDS = 60
"""Time until a document is claimed again whose function is disabled or cannot be called."""

_CLAIM_COLUMNS = (
    "id,case_id,lock_token,name,lane,dropbox_path,engine,language,profile,attempts,mime_type"
)


async def acquire_claim(
    database: Database, document_id: str, *, worker_id: str, lock_seconds: float
) -> Claim:
    """Claim one known document, also before its next attempt is due; else RequestRejected.

    A conflict that persists after all retries is a failed attempt, and raised.
    """
    try:
        answer = await retry_until_available(
            database.acquire_document_lock,
            document_id=document_id,
            worker_id=worker_id,
            lock_timeout=round(lock_seconds),
        )
    except errors.Conflict as exc:
        await _record_conflict(database, document_id, exc)
        raise
    if not answer["success"]:
        code, message = (
            answers.require_field(answer["error"]),
            answers.require_field(answer["message"]),
        )
        raise errors.RequestRejected(code, message)
    return Claim.from_row(answers.require_field(answer["document"]))


async def _record_conflict(database: Database, document_id: str, exc: errors.Conflict) -> None:
    """Count a failed attempt; if that conflicts too, report the conflict, which takes no lock."""
    try:
        await retry_until_available(
            database.fail_document,
            document_id=document_id,
            lock_token=None,
            error_message=errors.describe(exc),
            error_details={"type": type(exc).__name__},
            error_category=str(exc.category),
        )
    except errors.Conflict:
        await database.report_conflict(message=str(exc), document_id=document_id)


async def adopt_claim(database: Database, document_id: str, lock_token: str) -> Claim:
    """Return the claim that the caller holds; raise RequestRejected if it is lost."""
    rows = await database.select(
        tables.documents,
        columns=_CLAIM_COLUMNS,
        where={"id": document_id, "lock_token": lock_token},
    )
    if not rows:
        raise errors.RequestRejected("LOCK_LOST", "the lock token does not hold this document")
    return Claim.from_row(rows[0])


async def begin_claim(
    database: Database, claim: Claim, *, worker_id: str, lock_seconds: float
) -> None:
    """Begin to read a document that a dispatcher has claimed; RequestRejected if another does."""
    answer = await retry_until_available(
        database.begin_dispatch,
        document_id=claim.id,
        lock_token=claim.lock_token,
        invocation_id=str(uuid.uuid4()),
        worker_id=worker_id,
        lock_timeout=round(lock_seconds),
    )
    if not answer["success"]:
        raise errors.RequestRejected(
            answers.require_field(answer["error"]), answers.require_field(answer["message"])
        )


@dataclass(frozen=True, slots=True)
class DocumentLease:
    """The lease of a claimed document, see `pagewarden.leases.Lease`.

    Database calls are retried during a database outage; they carry the lock token, so that
    repeating one is harmless.
    """

    claim: Claim
    database: Database
    lock_seconds: float

    async def renew(self) -> None:
        """Extend the lock."""
        answer = await retry_until_available(
            self.database.extend_document_lock,
            document_id=self.claim.id,
            lock_token=self.claim.lock_token,
            lock_timeout=round(self.lock_seconds),
        )
        require_lock(answer)
        metrics.current().heartbeats.inc()

    async def hold(self) -> bool:
        """Extend the lock as a dispatcher; return whether an invocation has begun to read."""
        answer = await retry_until_available(
            self.database.extend_dispatch,
            document_id=self.claim.id,
            lock_token=self.claim.lock_token,
            lock_timeout=round(self.lock_seconds),
        )
        require_lock(answer)
        return bool(answer["begun"])

    async def fail(self, failure: Failure) -> Outcome:
        """Store why the reading failed; what can never be read becomes a dead letter at once."""
        if isinstance(failure.error, errors.FunctionDisabled):
            return await self.release(failure.message, retry_after=DISABLED_SECONDS)
        details = {"type": failure.type}
        answer: Mapping[str, object]
        if failure.category is errors.Category.PERMANENT:
            answer = await retry_until_available(
                self.database.move_to_dead_letter_queue,
                document_id=self.claim.id,
                lock_token=self.claim.lock_token,
                error_message=failure.message,
                error_details=details,
                error_category=str(failure.category),
            )
        else:
            answer = await retry_until_available(
                self.database.fail_document,
                document_id=self.claim.id,
                lock_token=self.claim.lock_token,
                error_message=failure.message,
                error_details=details,
                error_category=str(failure.category),
                retry_after=failure.retry_after(MAX_RETRY_SECONDS),
            )
        require_lock(answer)
        return Outcome.FAILED

    async def release(
        self,
        reason: str,
        *,
        outage: bool = False,
        unless_begun: bool = False,
        retry_after: int = 0,
    ) -> Outcome:
        """Give the document back; an outage pauses its lane.

        unless_begun: a document that an invocation reads is left to it.
        """
        held = {"document_id": self.claim.id, "lock_token": self.claim.lock_token}
        answer = await retry_until_available(
            self.database.release_documents,
            documents=[held],
            reason=reason,
            outage=outage,
            unless_begun=unless_begun,
            retry_after=retry_after,
        )
        if not answer["success"]:
            if answer["lost"][0]["error"] == "ALREADY_BEGUN":
                return Outcome.HANDED_OVER
            raise errors.LockLost("the lock token does not hold this document")
        if answer["failed"]:  # the outage affects this document only, so the attempt is counted
            return Outcome.FAILED
        log.info("document_released", reason=reason)
        return Outcome.GIVEN_BACK

    def is_outage(self, failure: Failure) -> bool:
        """Log the failure; return whether it is an outage, by the class of the error."""
        log.warning(
            "reading_failed",
            type=failure.type,
            error=failure.message,
            exc_info=failure.unexpected,
        )
        tracing.set_attributes(error=failure.type)
        return failure.is_outage

    def log_loss(self) -> None:
        """Log and count the lost lock."""
        log.warning("lock_lost")
        metrics.current().lock_losses.labels(self.claim.lane).inc()

    @property
    def lost_outcome(self) -> Outcome:
        """Return the outcome of a lost lock."""
        return Outcome.LOST
