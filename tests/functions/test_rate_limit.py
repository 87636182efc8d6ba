"""One person cannot call without end; services and others are not held up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pagewarden.functions.http import authentication
from tests.functions import house

if TYPE_CHECKING:
    from pagewarden import database as gateways
    from pagewarden import settings as settings_module
    from tests.documents import readers
    from tests.support import databases


async def test_who_calls_too_often_is_told_to_wait(
    database: databases.Database,
    gateway: gateways.Database,
    chosen: settings_module.Settings,
    recorder: readers.Recorder,
) -> None:
    """429 with the time to wait; nobody else notices."""
    few = chosen.model_copy(update={"requests_per_minute": 3})
    async with house.opened(database, gateway, few, recorder) as functions:
        ada, ben = [await functions.factory.user() for _ in range(2)]
        statuses = [(await functions.call("GET", "jobs", user=ada)).status_code for _ in range(4)]
        refused = await functions.call("GET", "jobs", user=ada)

        assert statuses == [200, 200, 200, 429]
        assert refused.json()["error"] == "TOO_MANY_REQUESTS"
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert (await functions.call("GET", "jobs", user=ben)).status_code == 200
        for _ in range(6):
            assert (await functions.serve("webhooks")).status_code == 200


@given(calls=st.lists(st.floats(0, 30), min_size=1, max_size=200), per_minute=st.integers(1, 60))
def test_in_no_minute_more_calls_pass_than_twice_the_limit(
    calls: list[float], per_minute: int
) -> None:
    """A full bucket and what comes in while it is emptied; whoever waits as told is let in."""
    clock = [0.0]
    bucket = authentication.RateLimiter(now=lambda: clock[0])
    passed = []
    for pause in calls:
        clock[0] += pause / 10
        wait = bucket.consume("ada", per_minute)
        if wait:
            clock[0] += wait + 1e-6
            assert bucket.consume("ada", per_minute) == 0
        passed.append(clock[0])
    for start in passed:
        assert sum(start <= moment < start + 60 for moment in passed) <= 2 * per_minute + 1


def test_those_who_were_not_heard_of_are_forgotten() -> None:
    """However many call, memory is bounded."""
    bucket = authentication.RateLimiter()
    for number in range(20_000):
        bucket.consume(str(number), 10)
    assert len(bucket._buckets) == 10_000  # noqa: SLF001
