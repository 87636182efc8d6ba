"""Dispatchers and invocations that are killed; `python -m benchmarks dispatch` is the long form."""

from __future__ import annotations

import random

from benchmarks import functions

KILLS = 6


async def test_killed_dispatchers_and_invocations_lose_nothing() -> None:
    """Every document is read once, and no attempt is counted that did not fail."""
    async with functions.open_functions(
        dispatchers=1,
        invocations=2,
        concurrency=10,
        pages=3,
        page_seconds=0.1,
        lock_seconds=2,
        heartbeat_seconds=0.5,
    ) as opened:
        figures = await functions.kill_processes(opened, KILLS, random.Random(5))  # noqa: S311  # no secret
    assert figures.killed_dispatchers + figures.killed_invocations == KILLS
    assert figures.documents >= functions.QUEUED
    assert figures.problems == []
