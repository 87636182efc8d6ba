"""A run finds what goes wrong in a build without a safeguard."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.chaos import run as runs
from tests.chaos.short_plan import SHORT

if TYPE_CHECKING:
    from pathlib import Path

NOTICE_SECONDS = 240.0  # a limit for what hangs, also on a busy machine


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
