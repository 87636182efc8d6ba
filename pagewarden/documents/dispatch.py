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

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import structlog

from pagewarden import errors, leases
from pagewarden.documents import routing
from pagewarden.documents.claim import Outcome
from pagewarden.documents.lease import DISABLED_SECONDS, DocumentLease

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from pagewarden.database import Database
    from pagewarden.documents.claim import Claim
    from pagewarden.storage import FileStore

log = structlog.get_logger(__name__)

RETRY_SECONDS = DISABLED_SECONDS
"""Time until a document that could not be handed over is claimed again."""

_CONNECT_SECONDS = 10.0
_CANCEL_SECONDS = 5.0
_EXCERPT_LENGTH = 200


@dataclass(slots=True)
class FunctionCaller:
    """Calls the functions that read documents; `problem` is the last call that failed."""

    client: httpx.AsyncClient
    store: FileStore
    problem: str | None = field(default=None, init=False)

    async def read(self, claim: Claim) -> Outcome:
        """Have a document read; return the outcome, or raise FunctionDisabled or DispatchFailed."""
        function = await routing.find_function(claim, self.store)
        try:
            response = await self.client.post(
                f"/functions/v1/{function}",
                json={"document_id": claim.id, "lock_token": claim.lock_token},
            )
        except httpx.HTTPError as exc:
            raise errors.DispatchFailed(
                f"{function} at {self.client.base_url} does not answer "
                f"({str(exc) or type(exc).__name__}); check PAGEWARDEN_FUNCTIONS_URL"
            ) from exc
        answer = _parse_object(response)
        if answer.get("error") == "SWITCHED_OFF":
            raise errors.FunctionDisabled(f"{function} is disabled")
        with contextlib.suppress(ValueError):
            if response.is_success:
                return Outcome(str(answer.get("outcome")))
        raise errors.DispatchFailed(
            f"{function} at {self.client.base_url} was not called: status {response.status_code}, "
            f"{response.text[:_EXCERPT_LENGTH]!r}; check PAGEWARDEN_FUNCTIONS_URL and the gateway"
        )


@contextlib.asynccontextmanager
async def open_caller(url: str, key: str, store: FileStore) -> AsyncIterator[FunctionCaller]:
    """Open a caller of the functions at this URL, with the secret key."""
    headers = {"apikey": key}
    if key.count(".") == 2:  # a legacy key is a JWT, and some gateways require it as bearer token
        headers["Authorization"] = f"Bearer {key}"
    # The budget of the dispatcher limits the wait, its concurrency the connections.
    timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=timeout, limits=limits, trust_env=False
    ) as client:
        yield FunctionCaller(client, store)


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


def _parse_object(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response; empty if it is anything else, such as an error page."""
    with contextlib.suppress(ValueError):
        content = response.json()
        if isinstance(content, dict):
            return content
    return {}
