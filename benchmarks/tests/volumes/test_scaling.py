"""Scaling is measurements with fake stages of known cost."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.volumes import scaling
from pagewarden.volumes import stages
from tests.volumes import fakes

if TYPE_CHECKING:
    from pathlib import Path


def test_speedup_compares_most_with_fewest_workers() -> None:
    """Speedups are computed per stage."""
    measurements = [
        scaling.Measurement("ocr", 1, 10, 20.0),
        scaling.Measurement("ocr", 2, 10, 12.5),
    ]
    assert scaling.compute_speedups(measurements) == {"ocr": 1.6}
    assert measurements[0].pages_per_second == 0.5


@pytest.mark.long
async def test_two_waiting_workers_are_nearly_twice_as_fast(tmp_path: Path) -> None:
    """The fake stages use no CPU, so only our overhead limits the speedup."""
    page = tmp_path / "page.jpg"
    page.write_bytes(b"an image")
    async with scaling.open_setup() as setup:
        fake = dataclasses.replace(setup, program=(sys.executable, "-m", "tests.volumes.command"))
        measurements = await scaling.measure(fake, [page], volumes=8, config={})
    assert {each.pages for each in measurements} == {8 * fakes.PAGES}
    found = scaling.compute_speedups(measurements)
    print({stage: round(factor, 2) for stage, factor in found.items()})  # noqa: T201
    assert set(found) == set(stages.STAGES)
    assert min(found.values()) > 1.6
