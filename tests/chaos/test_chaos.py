"""The whole system under fire, in short; `python -m benchmarks chaos` is the long form.

Everything is killed, stopped, cut off and restarted by a monkey while documents of all lanes come
in, and a referee in the database watches who touches what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.chaos import run as runs
from tests.chaos.short_plan import SHORT

if TYPE_CHECKING:
    from pathlib import Path


async def test_under_fire_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    """The referee finds no violation, and no page is read twice."""
    async with runs.begun(SHORT, tmp_path) as run:
        fire = await run.fire(SHORT.fire_seconds)
        found = await runs.conclude(run, fire, fire, await run.rest())

    assert found.violations == []
    assert sum(found.disturbances.values()) > 10
    assert found.statuses["completed"] > 20
    assert found.work.pages_again == 0
