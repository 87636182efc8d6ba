"""The alerts at a few hundred documents a day: an incident, a slow day, quiet days, replayed.

The figures of the incident: of 217 documents 29 are stuck and 26 failed, 23 of them after three
attempts, with a version conflict every three minutes and 45 s of reading on average.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.database import queries
from tests.database.watching import MINUTE, Watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support import databases

    Event = tuple[timedelta, Callable[[], Awaitable[Any]]]

MONITORING = Path(__file__).parents[2] / "sql" / "monitoring"
DAY = timedelta(days=1)
BATCH = 3 * MINUTE  # how often workers run, and how often the rules are evaluated here
CRITERIA = {"stuck-any-warning", "retry-success-warning", "conflicts-warning", "slow-day-warning"}


@pytest.fixture
async def watch(database: databases.Database) -> Watch:
    """Watch an empty database."""
    return await Watch.of(database)


async def _replay(watch: Watch, events: list[Event]) -> dict[str, timedelta]:
    """Let a day pass; return when each rule fired first."""
    begin, coming = watch.now, sorted(events, key=lambda event: event[0])
    while watch.now < begin + DAY:
        watch.now += BATCH
        while coming and begin + coming[0][0] <= watch.now:
            await coming.pop(0)[1]()
        await watch.run("select public.evaluate_alerts(%s)", watch.now)
    assert not coming
    fired = await queries.rows(
        watch.conn, "select rule, min(fired_at) as first from alerts group by rule"
    )
    return {row["rule"]: row["first"] - begin for row in fired}


def _reading(watch: Watch, count: int, milliseconds: int, *, of: int) -> list[Event]:
    """Have the first `count` of the `of` documents of a day read as they come."""
    return [(n * DAY / of, lambda: watch.result(milliseconds)) for n in range(count)]


async def _fail(watch: Watch, times: int) -> None:
    """Have a document fail so often, a batch after the other, and stay failed."""
    document = await watch.factory.queued(watch.case)
    await watch.run(
        "update documents set ocr_status = 'failed', attempts = %s, retry_count = %s "
        "where id = %s",
        times, times, document,
    )  # fmt: skip


async def _bury(watch: Watch) -> None:
    """Move what failed three times to the dead letters, as operators do."""
    (before,) = await _monitor(watch, "retry_statistics")
    assert before == {"max_retries": 23, "failed_total": 26, "avg_retries": Decimal("2.88")}
    assert len(await _monitor(watch, "bury_old_failures")) == 23
    await watch.run("update ocr_dead_letter set last_failed_at = %s", watch.now)


async def _monitor(watch: Watch, name: str) -> list[dict[str, Any]]:
    return await queries.rows(watch.conn, (MONITORING / f"{name}.sql").read_bytes())


async def test_the_incident_fires_every_alert_that_its_figures_reach(watch: Watch) -> None:
    """All but slow reading: 45 s is no reason to be called; rates need a few hours at the most."""
    events = _reading(watch, 162, 45_000, of=217)
    begin = 162 * DAY / 217
    for n in range(55):
        arrival = begin + n * DAY / 217
        if n % 2 == 0 or n > 52:  # 29 of them
            events.append((arrival, lambda: watch.claimed(watch.now)))
            continue
        attempts = 2 if n % 16 == 1 and n > 1 else 3  # three have one left
        events.append((arrival, functools.partial(_fail, watch, attempts)))
        events += [(arrival + BATCH * k, watch.failure) for k in range(attempts)]
    runs = int((DAY - begin) / BATCH)
    events += [(begin + BATCH * n, lambda: watch.failure("conflict")) for n in range(runs)]
    events.append((DAY - 10 * MINUTE, lambda: _bury(watch)))

    fired = await _replay(watch, events)

    seed = {
        *("stuck-critical", "stuck-warning", "dead-letters-critical"),
        *("success-critical", "retries-warning", "conflicts-critical"),
    }
    assert {*fired} == seed | CRITERIA
    late = {rule for rule, at in fired.items() if at - begin > timedelta(hours=3)}
    assert late == {"dead-letters-critical", "retry-success-warning"}  # when they were buried
    stuck = await queries.one(
        watch.conn, "select value from alerts where rule = 'stuck-critical' and resolved_at is null"
    )
    assert stuck["value"] == 29


async def test_reading_in_61_seconds_is_slow(watch: Watch) -> None:
    """Nothing else is wrong on that day."""
    fired = await _replay(watch, _reading(watch, 200, 61_000, of=200))

    assert {*fired} == {"slow-warning", "slow-day-warning"}


@pytest.mark.parametrize("retried", [True, False], ids=["retried", "given_up"])
async def test_a_quiet_day_with_three_failures_fires_nothing(
    watch: Watch, *, retried: bool
) -> None:
    """Neither if a retry helps, nor if three documents fail for good at the worst moment."""
    events = _reading(watch, 200, 35_000, of=200)
    if retried:
        for n in (20, 90, 160):
            events.append((n * DAY / 200, watch.failure))
            events.append((n * DAY / 200 + BATCH, lambda: watch.result(35_000, retry_count=1)))
    else:
        events += [(DAY / 2, watch.failure) for _ in range(9)]
        events.append((DAY / 2, lambda: watch.dead_letters(3)))

    assert await _replay(watch, events) == {}


async def test_the_criteria_are_measured_over_a_day(watch: Watch) -> None:
    """Each is met, missed, or unknown; the query shows what the rules measure."""
    missed = {"New dead letters", "Version conflicts", "Reading time", "Successful retries"}

    async def find(is_met: bool | None) -> set[str]:
        query = "select criterion, met from private.success_criteria(%s)"
        rows = await queries.rows(watch.conn, query, (watch.now,))
        assert len(rows) == 5
        return {row["criterion"] for row in rows if row["met"] is is_met}

    assert await find(True) == {"Stuck documents", "New dead letters"}
    await watch.result(39_900, retry_count=1, count=99)
    assert await find(None) == await find(False) == set()
    for _ in range(2):
        await watch.failure("conflict")
    await watch.result(60_000)
    await watch.dead_letters(11)
    assert await find(False) == missed
    await watch.claimed(watch.now - 11 * MINUTE)
    assert await find(False) == missed | {"Stuck documents"}
    watch.now += DAY
    assert await find(True) == {"New dead letters"}
