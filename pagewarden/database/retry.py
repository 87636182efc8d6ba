"""Repeat database calls: until the database is available, after a conflict, or at intervals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import structlog

from pagewarden import concurrency, errors, retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pagewarden.database.base import Database

log = structlog.get_logger(__name__)

Params = ParamSpec("Params")
T = TypeVar("T")

# Short enough that all locks are renewed before they expire once the database is back.
RECONNECT_SECONDS = (0.1, 0.25, 0.5)
CONFLICT_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)
CONFLICT_SWITCH = "ocr-worker-retry-v2"
"""The row of edge_function_config that switches the retries after conflicts."""


def _is_unavailable(error: BaseException) -> bool:
    return isinstance(error, errors.DatabaseUnavailable)


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, errors.Conflict)


_UNTIL_AVAILABLE = retry.RetryPolicy(
    RECONNECT_SECONDS, is_transient=_is_unavailable, is_endless=True
)
_CONFLICTS = retry.RetryPolicy(CONFLICT_SECONDS, is_transient=_is_conflict)


async def retry_until_available(
    call: Callable[Params, Awaitable[T]], *args: Params.args, **params: Params.kwargs
) -> T:
    """Call until the database responds; only for calls that may be repeated.

    After five retries a conflict is raised. A method of a Database obeys its switch of retries.
    """
    database: Database | None = getattr(call, "__self__", None)
    bound = functools.partial(call, *args, **params)

    async def call_once() -> T:
        return await _retry_conflicts(bound, database, asyncio.sleep)

    def log_retry(error: BaseException, _pause: float) -> None:
        log.warning("database_unavailable", call=_get_function_name(call), error=str(error))
        _count_retry()

    return await _UNTIL_AVAILABLE.call(call_once, on_retry=log_retry)


async def retry_on_conflict(
    call: Callable[[], Awaitable[T]],
    *,
    database: Database | None = None,
    case_id: str | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Call until there is no conflict, with up to five retries; then raise the conflict.

    With a database, its switch can disable the retries, and the final conflict is reported to it,
    with the case that the call was about.
    """
    try:
        return await _retry_conflicts(call, database, sleep)
    except errors.Conflict as exc:
        if database is not None:
            with contextlib.suppress(errors.DatabaseError):  # the caller needs the conflict itself
                await database.report_conflict(message=str(exc), case_id=case_id)
        raise


async def _retry_conflicts(
    call: Callable[[], Awaitable[T]],
    database: Database | None,
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    failures = 0
    while True:
        try:
            return await call()
        except errors.Conflict as exc:
            pause = _CONFLICTS.pause(failures, exc)
            log.warning("database_conflict", call=_get_function_name(call), error=str(exc))
            if pause is None or not await _is_retry_enabled(database):
                raise
        _count_retry()
        await sleep(pause)
        failures += 1


async def _is_retry_enabled(database: Database | None) -> bool:
    """Ask at each conflict, so that switching takes effect at once; by default it is enabled."""
    if database is None:
        return True
    try:
        return await database.is_function_enabled(function_name=CONFLICT_SWITCH)
    except errors.DatabaseError:
        return True


async def call_periodically(
    name: str, call: Callable[[], Awaitable[object]], stop: asyncio.Event, *, seconds: float
) -> None:
    """Call at this interval until `stop` is set; log database errors and continue."""
    while not stop.is_set():
        try:
            answer = await call()
        except errors.DatabaseError as exc:
            log.warning("periodic_call_failed", call=name, error=str(exc))
        else:
            if answer:
                log.debug("periodic_call_completed", call=name, answer=answer)
        await concurrency.wait(stop, seconds=seconds)


def _count_retry() -> None:
    from pagewarden.telemetry import metrics  # noqa: PLC0415  # short commands need no metrics

    metrics.current().calls_again.inc()


def _get_function_name(call: Callable[..., object]) -> str:
    """Return the name of the database function that is called."""
    inner = call.func if isinstance(call, functools.partial) else call
    return getattr(inner, "__name__", repr(inner))
