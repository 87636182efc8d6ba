"""The overview: how things stand, live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from playwright.async_api import expect

from dashboard import plots
from dashboard.pages import overview

if TYPE_CHECKING:
    from pagewarden.database import rows
    from tests.dashboard import place as places

QUIET: dict[str, Any] = {"queued": 0, "processing": 0, "stuck": 0, "oldest_waiting_seconds": None}
PAUSED = {"lane": "pdf", "paused_at": "2026-01-01T00:00:00Z", "pause_reason": "the GPU is away"}


@pytest.mark.parametrize(
    ("changes", "lanes", "state", "why"),
    [
        ({}, [], "idle", "nothing waits"),
        ({"processing": 1}, [], "running", "1 document is being read"),
        ({"queued": 2, "oldest_waiting_seconds": 5}, [], "running", "0 documents are"),
        ({"queued": 2, "oldest_waiting_seconds": 90}, [], "stalled", "nobody reads"),
        ({"queued": 2}, [PAUSED], "stalled", "lane pdf is paused (the GPU is away)"),
        ({"processing": 3, "stuck": 1}, [], "stalled", "1 document is stuck"),
    ],
)
def test_one_line_says_how_things_stand(
    changes: dict[str, Any], lanes: list[rows.Lanes], state: str, why: str
) -> None:
    """Running, idle, or stalled and why."""
    verdict = overview.judge(cast("rows.OcrSystemHealth", QUIET | changes), lanes)
    assert verdict.state == state
    assert why in verdict.why


def test_bars_fill_the_plot_and_stay_within() -> None:
    """The tallest bar has the height of the plot, what was given up on top of it."""
    plot = plots.bars("Title", "Summary", [("a", 3, 1), ("b", 0, 0), ("c", 2, 0)])
    assert plot.bad_bars[0].y == 0
    assert plot.bars[0].y == plot.bad_bars[0].height
    assert all(bar.y + bar.height == plots.HEIGHT for bar in plot.bars)
    assert plot.bars[-1].x + plot.bars[-1].width <= plots.WIDTH


async def test_the_overview_changes_when_a_document_completes(place: places.Place) -> None:
    """Nothing is reloaded; while it is paused nothing changes."""
    person = await place.person(admin=True)
    factory = place.functions.factory
    await factory.completed(person.case)
    async with place.browser(person) as page:
        await page.goto("/")
        completed = page.locator("#go-completed\\,-7-days")
        await expect(page.locator("#live-state")).to_have_text("Live")
        await expect(completed).to_have_text("1")
        await factory.completed(person.case)
        await expect(completed).to_have_text("2")

        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("#live-state")).to_have_text("Paused")
        await factory.dead_letter(person.case)
        await page.get_by_role("button", name="Go on").click()
        await expect(page.locator("#go-dead-letters")).to_have_text("1")

        first = await factory.queued(person.case)
        await factory.queued(person.case)
        oldest = page.locator(".oldest a")
        await expect(oldest).to_have_attribute("href", f"/documents/{first}")


async def test_the_overview_is_for_hac(place: places.Place) -> None:
    """Others begin with their documents, and see no entry of it in the menu."""
    person = await place.person()
    async with place.visitor(person) as client:
        assert (await client.get("/")).headers["location"] == "/documents"
        assert 'href="/overview"' not in (await client.get("/documents")).text
