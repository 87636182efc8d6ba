"""RemoteAttempt: hand a claimed document over HTTP to an invocation of the function that reads it.

The dispatcher renews the lock until the invocation has begun, which the database tells it: gateways
may buffer, cut off or replace every response. From then on the invocation renews the lock itself.

    answered             its outcome
    failed, not begun    give the document back, uncounted
    failed, begun        no failure: the invocation reads on, and ends the attempt
    stopped              give back what has not begun; what has begun reads on
    dispatcher killed    the invocation reads on; if it has not begun, the lock expires
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors, leases
from pagewarden.documents.claim import Outcome
from pagewarden.documents.lease import DISABLED_SECONDS, DocumentLease

if TYPE_CHECKING:
    import asyncio

    from pagewarden.database import Database
    from pagewarden.documents.claim import Claim
    from pagewarden.documents.function_caller import FunctionCaller

log = structlog.get_logger(__name__)

RETRY_SECONDS = DISABLED_SECONDS
"""Time until a document that could not be handed over is claimed again."""

_CANCEL_SECONDS = 5.0


@dataclass(slots=True)
class DispatchLease:
    """The lease of a document that is handed over, see `pagewarden.leases.Lease`.

    It is renewed until an invocation has begun, and never given back after that.
    """

    lease: DocumentLease
    caller: FunctionCaller
    has_begun: bool = field(default=False, init=False)

    async def renew(self) -> None:
        """Extend the lock, unless an invocation does."""
        if not self.has_begun:
            self.has_begun = await self.lease.hold()

    async def fail(self, failure: leases.Failure) -> Outcome:
        """Give back a document that could not be handed over, for another time."""
        outcome = await self.lease.release(
            failure.message, unless_begun=True, retry_after=RETRY_SECONDS
        )
        is_disabled = isinstance(failure.error, errors.FunctionDisabled)
        if outcome is Outcome.GIVEN_BACK and not is_disabled:
            self.caller.problem = failure.message
        return outcome

    async def release(self, reason: str, *, outage: bool) -> Outcome:
        """Give the document back."""
        return await self.lease.release(reason, outage=outage, unless_begun=True)

    def is_outage(self, failure: leases.Failure) -> bool:
        """Log the failure; it says nothing about the engines and stores of the lane."""
        log.warning("dispatch_failed", error=failure.message, exc_info=failure.unexpected)
        return False

    def log_loss(self) -> None:
        """Log and count the lost lock."""
        self.lease.log_loss()

    @property
    def lost_outcome(self) -> Outcome:
        """Return the outcome of a lost lock."""
        return self.lease.lost_outcome


@dataclass(frozen=True, slots=True)
class RemoteAttempt:
    """One attempt at a claimed document by an invocation."""

    claim: Claim
    database: Database
    caller: FunctionCaller
    lock_seconds: float
    heartbeat_seconds: float

    async def run(self, stop: asyncio.Event) -> Outcome:
        """Hand the document over and wait for its outcome, or until `stop` is set."""
        lease = DocumentLease(self.claim, self.database, self.lock_seconds)
        runner = leases.LeaseRunner(
            DispatchLease(lease, self.caller),
            self._call,
            _get_outcome,
            heartbeat_seconds=self.heartbeat_seconds,
            cancel_seconds=_CANCEL_SECONDS,
            stop_seconds=self.lock_seconds,
        )
        return await runner.run(stop)

    async def _call(self) -> Outcome:
        return await self.caller.read(self.claim)


async def _get_outcome(outcome: Outcome) -> Outcome:
    return outcome  # the invocation has ended the attempt
