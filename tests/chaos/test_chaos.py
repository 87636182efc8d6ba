"""A short chaos test of the whole system; `python -m benchmarks chaos` is the long form.

All parts are killed, suspended, disconnected and restarted while documents of all lanes are
uploaded, and a monitor in the database checks who changes what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.chaos import run as runs
from tests.chaos.short_plan import SHORT

if TYPE_CHECKING:
    from pathlib import Path


async def test_faults_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """There is no violation, and no page is read twice."""
    async with runs.open_run(SHORT, tmp_path) as run:
        period = await run.inject_faults(SHORT.fire_seconds)
        result = await runs.conclude(run, period, period, await run.settle())

    assert result.violations == []
    assert sum(result.disturbances.values()) > 10
    assert result.statuses["completed"] > 0  # how many depends on the load
    assert result.work.pages_again == 0
