"""The measurement of scaling, with stages whose cost is known."""

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


def test_the_factor_is_that_of_the_most_workers_over_the_fewest() -> None:
    """Stage by stage."""
    measured = [scaling.Measured("ocr", 1, 10, 20.0), scaling.Measured("ocr", 2, 10, 12.5)]
    assert scaling.ratios(measured) == {"ocr": 1.6}
    assert measured[0].pages_per_second == 0.5


@pytest.mark.long
async def test_two_workers_that_only_wait_are_twice_as_quick(tmp_path: Path) -> None:
    """As their stages take no CPU, so nothing else stands in the way but what we add ourselves."""
    page = tmp_path / "page.jpg"
    page.write_bytes(b"an image")
    async with scaling.open_place() as place:
        fake = dataclasses.replace(place, program=(sys.executable, "-m", "tests.volumes.command"))
        measured = await scaling.measure(fake, [page], volumes=8, config={})
    assert {each.pages for each in measured} == {8 * fakes.PAGES}
    found = scaling.ratios(measured)
    print({stage: round(factor, 2) for stage, factor in found.items()})  # noqa: T201
    assert set(found) == set(stages.STAGES)
    assert min(found.values()) > 1.6
