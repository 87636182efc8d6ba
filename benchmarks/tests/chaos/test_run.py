"""A run detects a build without a safeguard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.chaos import run as runs
from tests.chaos.short_plan import SHORT

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 240.0  # also enough on a busy machine


async def test_broken_build_is_detected(tmp_path: Path) -> None:
    """Without heartbeats, workers lose their documents."""
    async with runs.open_run(SHORT, tmp_path) as run:
        submissions = run.source.submissions
        slow: set[str] = set()
        while not slow:  # on a busy machine, few documents are submitted in three seconds
            await run.inject_faults(3.0)
            slow = set(submissions.readable(slow=True)) - set(submissions.readable())
        await run.settle()
        await run.break_build("heartbeat")
        for name in slow:
            await run.users.read_document_again(submissions.ids[name])
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await run.wait_for_violation()
        rules = {violation.rule for violation in await run.monitor.find_violations()}
        assert rules == {"the sweep rescues documents only from dead workers"}
