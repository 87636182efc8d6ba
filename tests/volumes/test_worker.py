"""Volumes go through all stages, whatever happens to those who do them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.volumes import stages, turns
from tests.support import polling
from tests.volumes import fakes, house

if TYPE_CHECKING:
    import pytest

RUNS = "select stage, outcome from volume_runs order by id"


async def test_a_job_goes_through_all_stages(home: house.House) -> None:
    """Every volume ends done, with artifacts of each stage and figures of the last."""
    await home.order("W1-I1", "W2-I1")
    await home.work(home.worker())
    assert await home.tasks("current_stage", "status", "attempts") == [("done", "done", 0)] * 2
    assert len(house.artifacts_of(home.output)) == 8
    query = "select total_images, processing_duration_ms >= 0 from volume_results"
    assert await (await home.conn.execute(query)).fetchall() == [(4, True)] * 2
    assert await home.violations() == []


async def test_each_stage_has_workers_of_its_own(home: house.House) -> None:
    """A worker of one stage leaves the others alone."""
    await home.order("W1-I1")
    crew = [home.worker(name=name, serves=[name]) for name in stages.STAGES]
    await home.work(*crew)
    query = "select stage = worker_id from volume_runs"
    assert await (await home.conn.execute(query)).fetchall() == [(True,)] * 4
