"""The overview: how things stand, live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from playwright.async_api import expect

from pagewarden.dashboard import rendering
from pagewarden.dashboard.pages import overview

if TYPE_CHECKING:
    from pagewarden.database import rows
    from tests.dashboard import site as sites

QUIET: dict[str, Any] = {"queued": 0, "processing": 0, "stuck": 0, "oldest_waiting_seconds": None}
PAUSED = {"lane": "pdf", "paused_at": "2026-01-01T00:00:00Z", "pause_reason": "the GPU is away"}


@pytest.mark.parametrize(
    ("changes", "lanes", "state", "reason"),
    [
        ({}, [], "idle", "no documents are waiting"),
        ({"processing": 1}, [], "running", "1 document is being read"),
        ({"queued": 2, "oldest_waiting_seconds": 5}, [], "running", "0 documents are"),
        ({"queued": 2, "oldest_waiting_seconds": 100}, [], "stalled", "nothing reads them"),
        ({"queued": 2}, [PAUSED], "stalled", "lane pdf is paused (the GPU is away)"),
        ({"processing": 3, "stuck": 1}, [], "stalled", "1 document is stuck"),
    ],
)
def test_the_verdict_has_a_state_and_a_reason(
    changes: dict[str, Any], lanes: list[rows.Lanes], state: str, reason: str
) -> None:
    """The state is running, idle or stalled."""
    verdict = overview.assess_health(cast("rows.OcrSystemHealth", QUIET | changes), lanes)
    assert verdict.state == state
    assert reason in verdict.reason


def test_bars_fit_their_chart() -> None:
    """The tallest bar has the height of the chart; bad values are stacked on good ones."""
    chart = rendering.make_bar_chart("Title", "Summary", [("a", 3, 1), ("b", 0, 0), ("c", 2, 0)])
    assert chart.bad_bars[0].y == 0
    assert chart.bars[0].y == chart.bad_bars[0].height
    assert all(bar.y + bar.height == rendering.HEIGHT for bar in chart.bars)
    assert chart.bars[-1].x + chart.bars[-1].width <= rendering.WIDTH


async def test_the_overview_updates_live(site: sites.Site) -> None:
    """Without a reload, unless it is paused."""
    person = await site.add_person(admin=True)
    factory = site.functions.factory
    await factory.completed(person.case)
    async with site.browser(person) as page:
        await page.goto("/")
        completed = page.locator("#go-completed\\,-7-days")
        await expect(page.locator("#live-state")).to_have_text("Live")
        await expect(completed).to_have_text("1")
        await factory.completed(person.case)
        await expect(completed).to_have_text("2")

        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator("#live-state")).to_have_text("Paused")
        await factory.dead_letter(person.case)
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator("#go-dead-letters")).to_have_text("1")

        first = await factory.queued(person.case)
        await factory.queued(person.case)
        oldest = page.locator(".oldest a")
        await expect(oldest).to_have_attribute("href", f"/documents/{first}")


async def test_the_overview_is_for_hac(site: sites.Site) -> None:
    """Other users start with their documents, and have no menu entry for it."""
    person = await site.add_person()
    async with site.client(person) as client:
        assert (await client.get("/")).headers["location"] == "/documents"
        assert 'href="/overview"' not in (await client.get("/documents")).text


async def test_success_criteria_are_a_tile(site: sites.Site) -> None:
    """Each with its value, its target and whether it is met; also in words."""
    person = await site.add_person(admin=True)
    factory = site.functions.factory
    await factory.completed(person.case)
    for _ in range(3):
        await factory.dead_letter(person.case)
    async with site.browser(person) as page:
        await page.goto("/overview")
        tile = page.get_by_role("region", name="Success criteria")
        await expect(page.locator("#live-state")).to_have_text("Live")
        await expect(tile.locator(".met")).to_have_text(
            ["Stuck documents 0 met, target 0", "Version conflicts 0% met, target < 1%",
             "Reading time 0.1 s met, target < 40 s"]
        )  # fmt: skip
        await expect(tile.locator(".missed")).to_have_text(
            ["New dead letters 3 missed, target < 3"]
        )
        await expect(tile.locator(".unknown")).to_have_text(
            ["Successful retries — no data, target > 90%"]
        )
