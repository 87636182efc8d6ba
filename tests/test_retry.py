"""The one mechanism of retries, with a clock that only notes."""

from __future__ import annotations

import contextlib
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors, retry

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

AWAY = errors.ServerUnavailable("away")


class Naps:
    """Notes how long somebody wanted to sleep."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Note it."""
        self.seconds.append(seconds)


def test_pauses_grow_vary_and_end() -> None:
    """By a quarter at most."""
    policy = retry.RetryPolicy((1.0, 2.0))
    found = [policy.pause(failures, AWAY) for failures in range(3)]
    assert found == [pytest.approx(1, rel=0.25), pytest.approx(2, rel=0.25), None]
    assert len({policy.pause(0, AWAY) for _ in range(9)}) > 1


def test_an_endless_policy_repeats_its_last_pause() -> None:
    """Whatever the number of failures."""
    policy = retry.RetryPolicy((1.0, 2.0), is_endless=True)
    assert policy.pause(10**9, AWAY) == pytest.approx(2, rel=0.25)


@pytest.mark.parametrize(
    ("requested", "budget", "expected"),
    [
        (0.001, math.inf, pytest.approx(1, rel=0.25)),
        (5.0, math.inf, 5.0),
        (31.0, math.inf, None),
        (5.0, 5.1, 5.0),
        (5.0, 5.0, None),
        (None, 0.5, None),
    ],
)
def test_a_requested_wait_counts_within_limit_and_budget(
    requested: float | None, budget: float, expected: float | None
) -> None:
    """A longer one is no retry."""
    error = errors.ServerUnavailable("busy", retry_after=requested)
    assert retry.RetryPolicy((1.0,)).pause(0, error, budget=budget) == expected


def test_other_errors_are_not_retried() -> None:
    """Nor is a cancellation."""
    policy = retry.RetryPolicy()
    assert policy.pause(0, ValueError()) is None
    assert policy.pause(0, GeneratorExit()) is None


async def _count_up(
    policy: retry.RetryPolicy, failing: set[int], *, progress: bool = False
) -> AsyncGenerator[int]:
    """Yield one number for each attempt that does not fail, and end after the first."""
    tries = 0
    async for attempt in policy.attempts():
        with attempt:
            tries += 1
            if progress:
                attempt.reset()
                yield -tries
            if tries in failing:
                raise AWAY
            yield tries


async def test_attempts_may_yield_in_between() -> None:
    """They end with the first that succeeds."""
    naps = Naps()
    policy = retry.RetryPolicy((1.0, 2.0), naps.sleep)
    assert [number async for number in _count_up(policy, {1, 2})] == [3]
    assert naps.seconds == [pytest.approx(1, rel=0.25), pytest.approx(2, rel=0.25)]
    with pytest.raises(errors.ServerUnavailable):
        [number async for number in _count_up(policy, {1, 2, 3})]


async def test_progress_starts_the_count_again() -> None:
    """A long stream may be interrupted more often than a short one."""
    policy = retry.RetryPolicy((1.0,), Naps().sleep)
    found = [number async for number in _count_up(policy, {1, 2, 3}, progress=True)]
    assert found == [-1, -2, -3, -4, 4]


async def test_whoever_stops_taking_ends_the_attempts() -> None:
    """Closing is no failure."""
    naps = Naps()
    policy = retry.RetryPolicy((1.0,), naps.sleep)
    async with contextlib.aclosing(_count_up(policy, set())) as numbers:
        assert await anext(numbers) == 1
    assert naps.seconds == []


async def test_each_retry_is_reported() -> None:
    """With the error and the pause, before it."""
    seen: list[tuple[BaseException, float]] = []
    failures = [AWAY, AWAY]

    async def attempt() -> str:
        if failures:
            raise failures.pop()
        return "done"

    naps = Naps()
    policy = retry.RetryPolicy((1.0, 2.0), naps.sleep)
    answer = await policy.call(attempt, on_retry=lambda *retried: seen.append(retried))

    assert answer == "done"
    assert seen == [(AWAY, pause) for pause in naps.seconds]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("17", 17.0),
        (" 4.5 ", 4.5),
        ("Sat, 31 Jan 2026 06:00:09 GMT", 9.0),
        ("Sat, 31 Jan 2026 05:00:00 GMT", 0.0),
        *((bad, None) for bad in ("", None, "soon", "-5", "nan", "1e99", "9" * 400, "\u0663")),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, expected: float | None) -> None:
    """What is neither is as if it were not there."""
    now = datetime(2026, 1, 31, 6, 0, tzinfo=UTC)
    assert retry.parse_retry_after(value, now) == expected


def test_doubling_ends_at_the_maximum() -> None:
    """However many there are."""
    assert retry.make_doubling_pauses(1, 10, 6) == (1, 2, 4, 8, 10, 10)
    assert retry.make_doubling_pauses(1, 30, 2000)[-1] == 30
