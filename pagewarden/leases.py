"""Run work under a lease: heartbeat, lost lease, stop, give-back with a time limit, outcome.

A lease is a hold on a piece of work, with a token that every call carries. Documents and volumes
define the calls (`Lease`) and the work; `LeaseRunner` decides when to make each call:

    work ends       complete it; heartbeats continue, so completing may take long
    work fails      report the error; an outage gives the work back instead
    lease is lost   cancel the work, and report nothing: another worker holds it
    stop            cancel the work and give it back; complete it if it still succeeds

The process may be killed at any instruction; the lease then expires. A call that is repeated after
a lost response raises LockLost and changes nothing, because its lease has ended.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pagewarden import concurrency, errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

R = TypeVar("R")
T = TypeVar("T")
O = TypeVar("O")  # noqa: E741  # the outcome
O_co = TypeVar("O_co", covariant=True)

STOP_REASON = "the worker is stopping"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of the work, in the form that the database stores.

    known_category replaces the category of the error's class.
    """

    error: BaseException
    known_category: errors.Category | None = None

    @property
    def type(self) -> str:
        """Return the name of the error's class."""
        return type(self.error).__name__

    @property
    def message(self) -> str:
        """Return the message, in a form that the database can store."""
        return errors.describe(self.error)

    @property
    def category(self) -> errors.Category:
        """Return the category that the failure is filed under."""
        own = self._pagewarden_error.category if self._pagewarden_error else errors.Category.UNKNOWN
        return self.known_category or own

    @property
    def is_outage(self) -> bool:
        """Tell whether a service is unavailable, which is not counted against the work."""
        return bool(self._pagewarden_error and self._pagewarden_error.outage)

    @property
    def unexpected(self) -> BaseException | None:
        """Return the error if its traceback is needed; ours are identified by their class."""
        return None if self._pagewarden_error else self.error

    def retry_after(self, max_seconds: int) -> int | None:
        """Return the delay in seconds that a service has requested, within bounds."""
        seconds = self.error.retry_after if isinstance(self.error, errors.RateLimited) else None
        return None if seconds is None else min(math.ceil(max(seconds, 0)), max_seconds)

    @property
    def _pagewarden_error(self) -> errors.PagewardenError | None:
        return self.error if isinstance(self.error, errors.PagewardenError) else None


class Lease(Protocol[O_co]):
    """The calls of one lease; each raises LockLost if the token no longer holds the work.

    Database errors that a retry cannot help are raised too; the lease then expires.
    """

    async def renew(self) -> None:
        """Send a heartbeat."""
        ...

    async def fail(self, failure: Failure) -> O_co:
        """Store a failed attempt."""
        ...

    async def release(self, reason: str, *, outage: bool) -> O_co:
        """Give the work back without counting the attempt."""
        ...

    def is_outage(self, failure: Failure) -> bool:
        """Log the failure; return whether it is an outage, which gives the work back."""
        ...

    def log_loss(self) -> None:
        """Log that the token no longer holds the work."""
        ...

    @property
    def lost_outcome(self) -> O_co:
        """Return the outcome of a lost lease: another worker holds the work, or will."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseRunner(Generic[T, O]):
    """Runs one piece of work under a lease that is already held.

    Errors of `work` and `complete` are reported to
    the lease; only errors of the lease's own calls are raised. When stopped, it waits at most
    cancel_seconds for the cancelled work, and then at most stop_seconds for the database.
    """

    lease: Lease[O]
    work: Callable[[], Coroutine[Any, Any, T]]
    complete: Callable[[T], Awaitable[O]]
    heartbeat_seconds: float
    cancel_seconds: float
    stop_seconds: float
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    async def run(self, stop: asyncio.Event) -> O:
        """Run the work to its outcome; give it back if `stop` is set."""
        tasks = _TaskGroup()
        try:
            is_stopped = False
            work_task = tasks.start(self.work())
            heartbeat = tasks.start(self._send_heartbeats())
            stopping = tasks.start(stop.wait())
            await _wait_for_first(work_task, heartbeat, stopping)
            conflict = None if work_task.done() else _get_conflict(heartbeat)
            if not work_task.done():
                # It is ended before it is given back or failed, so that it changes nothing later.
                work_task.cancel()
                await _wait_for_first(work_task, tasks.start(self.sleep(self.cancel_seconds)))
                is_stopped = conflict is None
            ending = tasks.start(self._finish(work_task, conflict, is_stopped=is_stopped))
            await _wait_for_first(ending, stopping)
            if not ending.done():
                await _wait_for_first(ending, tasks.start(self.sleep(self.stop_seconds)))
            # If the database stays unavailable, the lease expires.
            return ending.result() if ending.done() else self.lease.lost_outcome
        except errors.LockLost:
            self.lease.log_loss()
            return self.lease.lost_outcome
        finally:
            await concurrency.cancel_all(tasks.started)

    async def _send_heartbeats(self) -> None:
        """Renew the lease periodically, until a call raises."""
        while True:
            await self.sleep(self.heartbeat_seconds)
            await self.lease.renew()

    async def _finish(
        self, work_task: asyncio.Task[T], conflict: errors.Conflict | None, *, is_stopped: bool
    ) -> O:
        """Complete the work, report its error or that of the heartbeat, or give it back."""
        if is_stopped and not _has_result(work_task):
            return await self.lease.release(STOP_REASON, outage=False)
        if conflict is not None and not _has_result(work_task):
            return await self._report(conflict)
        if work_task.cancelled():  # by a library, not by us
            return await self._report(asyncio.CancelledError("the work was cancelled"))
        try:
            return await self.complete(work_task.result())
        except errors.LockLost:
            raise
        except Exception as exc:  # noqa: BLE001  # stored in the database
            return await self._report(exc)

    async def _report(self, error: BaseException) -> O:
        failure = Failure(error)
        if self.lease.is_outage(failure):
            return await self.lease.release(failure.message, outage=True)
        return await self.lease.fail(failure)


class _TaskGroup:
    """Tasks that end together."""

    def __init__(self) -> None:
        self.started: list[asyncio.Task[Any]] = []

    def start(self, coroutine: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.create_task(coroutine)
        self.started.append(task)
        return task


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _get_conflict(heartbeat: asyncio.Task[None]) -> errors.Conflict | None:
    """Return the conflict that ended the heartbeats, None while they continue; raise other errors.

    The lease is still held after a conflict, so the work fails instead of expiring.
    """
    if heartbeat.done():
        try:
            heartbeat.result()
        except errors.Conflict as exc:
            return exc
    return None


async def _wait_for_first(*tasks: asyncio.Task[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
