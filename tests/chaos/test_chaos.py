"""The whole system under fire, in short; `pagewarden bench chaos` is the long form.

Everything is killed, stopped, cut off and restarted by a monkey while documents of all lanes come
in, and a referee in the database watches who touches what.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden.bench.chaos import plans
from pagewarden.bench.chaos import run as runs

if TYPE_CHECKING:
    from pathlib import Path

SEED = 576  # in its first 20 seconds every kind of part is hit, and the database twice
FIRE_SECONDS = 20.0
NOTICE_SECONDS = 60.0
# Everything that takes its time in earnest is short, so that a death is over within the test.
SHORT = plans.Plan(
    seed=SEED,
    fire_seconds=FIRE_SECONDS,
    gap_seconds=0.6,
    settle_seconds=120.0,
    lock_seconds=5.0,
    heartbeat_seconds=1.0,
    sweep_seconds=1.0,
    gpu_silence_seconds=10.0,
    backoff_seconds=1,
    probe_seconds=1,
    slow_pages=14,
    slow_share=0.05,
    waiting={"image": 8, "pdf": 4, "index": 4, "acte": 4, "check": 4},
    workers={
        "worker-1": ("work", "--lanes", "check,image,pdf", "--processes", "2"),
        "pool": ("pool", "run", "--lanes", "index,acte,check,image", "--size", "4"),
    },
)


async def test_under_fire_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    """The referee finds no violation, and no page is read twice."""
    async with runs.begun(SHORT, tmp_path) as run:
        fire = await run.fire(SHORT.fire_seconds)
        found = await runs.conclude(run, fire, fire, await run.rest())

    assert found.violations == []
    assert sum(found.disturbances.values()) > 10
    assert found.statuses["completed"] > 20
    assert found.work.pages_again == 0


@pytest.mark.bench
async def test_a_broken_build_is_noticed(tmp_path: Path) -> None:
    """Heartbeats are switched off, and the referee objects."""
    async with runs.begun(SHORT, tmp_path) as run:
        await run.fire(3.0)
        await run.rest()
        await run.break_build("heartbeat")
        brought = run.intake.brought
        slow = set(brought.readable(slow=True)) - set(brought.readable())
        assert slow
        for name in slow:
            await run.people.have_read(brought.ids[name])
        async with asyncio.timeout(NOTICE_SECONDS):
            await run.until_found()
        rules = {violation.rule for violation in await run.referee.violations()}
        assert rules == {"only who is gone loses a document to the sweep"}
