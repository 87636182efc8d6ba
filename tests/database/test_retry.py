"""Conflicts are tried again, a few times, further and further apart."""

from __future__ import annotations

import pytest

from pagewarden import database, errors


class Calls:
    """A call that fails so many times before it succeeds, and a clock that only notes."""

    def __init__(self, *failures: errors.DatabaseError) -> None:
        self.failures = list(failures)
        self.made = 0
        self.slept: list[float] = []

    async def call(self) -> str:
        """Fail while there are failures left."""
        self.made += 1
        if self.failures:
            raise self.failures.pop()
        return "done"

    async def sleep(self, seconds: float) -> None:
        """Note how long somebody wanted to sleep."""
        self.slept.append(seconds)


async def test_call_without_conflict_is_made_once() -> None:
    """Nobody sleeps when all is well."""
    calls = Calls()

    assert await database.retry_on_conflict(calls.call, sleep=calls.sleep) == "done"
    assert (calls.made, calls.slept) == (1, [])


async def test_conflict_is_tried_again_after_growing_pauses() -> None:
    """The pauses are 100, 200, 400, 800 and 1600 ms, a quarter more or less."""
    calls = Calls(*(errors.Conflict("again") for _ in range(5)))

    assert await database.retry_on_conflict(calls.call, sleep=calls.sleep) == "done"
    assert calls.made == 6
    assert calls.slept == [
        pytest.approx(seconds, rel=0.25) for seconds in (0.1, 0.2, 0.4, 0.8, 1.6)
    ]


async def test_sixth_conflict_is_raised() -> None:
    """After five retries the caller is told."""
    calls = Calls(*(errors.Conflict("again") for _ in range(6)))

    with pytest.raises(errors.Conflict):
        await database.retry_on_conflict(calls.call, sleep=calls.sleep)
    assert calls.made == 6


@pytest.mark.parametrize(
    "kind", [errors.DatabaseUnavailable, errors.InvalidArgument, errors.Forbidden]
)
async def test_other_error_is_raised_at_once(kind: type[errors.DatabaseError]) -> None:
    """Only a conflict proves that the call had no effect and may have one the next time."""
    calls = Calls(kind("no"))

    with pytest.raises(kind):
        await database.retry_on_conflict(calls.call, sleep=calls.sleep)
    assert calls.made == 1
