"""The one way to retry: backoff with jitter, the wait that a service requests, and a budget.

A policy only decides how long to wait. `call` retries a coroutine, `resume` a stream from its
position, `attempts` the body of a loop that yields in between; threads ask `pause` themselves:

    async for attempt in policy.attempts():
        with attempt:
            ...
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import math
import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from types import TracebackType

    OnRetry = Callable[[BaseException, float], None]
    """Receives the error and the pause before each retry."""

T = TypeVar("T")

PAUSE_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)
MAX_WAIT_SECONDS = 30.0


def _ignore(_error: BaseException, _pause: float) -> None:
    pass


def is_unavailable(error: BaseException) -> bool:
    """Tell whether a server or store is unavailable, which a retry may help."""
    return isinstance(error, (errors.ServerUnavailable, errors.StoreUnavailable))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses between attempts; their number limits the retries, unless the last one repeats.

    A service that requests a wait of more than max_wait seconds counts as unavailable.
    """

    pauses: Sequence[float] = PAUSE_SECONDS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    max_wait: float = MAX_WAIT_SECONDS
    is_transient: Callable[[BaseException], bool] = is_unavailable
    is_endless: bool = False

    def pause(
        self, failures: int, error: BaseException, *, budget: float = math.inf
    ) -> float | None:
        """Return the wait before the next attempt; None if there is none within the budget.

        failures are those before this error.
        """
        requested = getattr(error, "retry_after", None) or 0.0
        is_last = failures >= len(self.pauses) and not self.is_endless
        if is_last or requested > self.max_wait or not self.is_transient(error):
            return None
        seconds = max(jitter(self.pauses[min(failures, len(self.pauses) - 1)]), requested)
        return seconds if seconds < budget else None

    async def call(self, attempt: Callable[[], Awaitable[T]], *, on_retry: OnRetry = _ignore) -> T:
        """Call until it succeeds; raise the error that is not retried."""
        failures = 0
        while True:
            try:
                return await attempt()
            except Exception as exc:
                seconds = self.pause(failures, exc)
                if seconds is None:
                    raise
                on_retry(exc, seconds)
            await self.sleep(seconds)
            failures += 1

    def attempts(self, *, on_retry: OnRetry = _ignore) -> Attempts:
        """Return the attempts to loop over."""
        return Attempts(self, on_retry)

    async def resume(
        self, read_from: Callable[[int], AsyncGenerator[bytes, None]], start: int
    ) -> AsyncGenerator[bytes, None]:
        """Resume a stream at its position after a lost connection; stored files never change."""
        position = start
        async for attempt in self.attempts():
            with attempt:
                async with contextlib.aclosing(read_from(position)) as chunks:
                    async for chunk in chunks:
                        position += len(chunk)
                        attempt.reset()
                        yield chunk


class Attempts:
    """The attempts of one loop, and the context of each: it ends when an attempt succeeds."""

    def __init__(self, policy: RetryPolicy, on_retry: OnRetry) -> None:
        self._policy = policy
        self._on_retry = on_retry
        self._failures = 0
        self._pause: float | None = 0.0

    def __aiter__(self) -> Attempts:
        return self

    async def __anext__(self) -> Attempts:
        if self._pause is None:
            raise StopAsyncIteration
        if self._failures:
            await self._policy.sleep(self._pause)
        return self

    def reset(self) -> None:
        """Start counting again, because the attempt has made progress."""
        self._failures = 0

    def __enter__(self) -> None:
        self._pause = None

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc is not None:
            self._pause = self._policy.pause(self._failures, exc)
            if self._pause is not None:
                self._failures += 1
                self._on_retry(exc, self._pause)
        return self._pause is not None


def jitter(seconds: float) -> float:
    """Vary a pause by a quarter, so that callers which failed together do not retry together."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311  # not for secrets


def add_jitter(seconds: float) -> float:
    """Add up to a quarter to a wait that a service requested, for the same reason."""
    return seconds * random.uniform(1.0, 1.25)  # noqa: S311  # not for secrets


def make_doubling_pauses(initial: float, maximum: float, count: int) -> tuple[float, ...]:
    """Return a number of pauses, each twice as long as the one before, up to a maximum."""
    return tuple(min(initial * 2.0 ** min(number, 64), maximum) for number in range(count))


def parse_seconds(duration: str) -> float | None:
    """Parse a number of seconds, as in `17`, `4.5` or `4.5s`; None if it is anything else."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]+)?)s?", duration.strip())
    return float(match[1]) if match else None


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Parse the header Retry-After, a number of seconds or a date; None if it is neither."""
    seconds = parse_seconds(value or "")
    if seconds is not None or not value:
        return seconds
    with contextlib.suppress(ValueError):
        date = email.utils.parsedate_to_datetime(value)
        wait = date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))
        return max(0.0, wait.total_seconds())
    return None
