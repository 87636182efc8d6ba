"""The menu: one line at the widths people have, and all of it by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from pagewarden.dashboard import app
from tests.dashboard.test_accessibility import AXE

if TYPE_CHECKING:
    from tests.dashboard import site as sites

TOPS = """() => [...document.querySelectorAll("header nav > *, header nav .entries > *")]
    .map((entry) => Math.round(entry.getBoundingClientRect().bottom))"""


@pytest.mark.parametrize("width", [1024, 1280, 1440])
async def test_the_menu_is_one_line(site: sites.Site, width: int) -> None:
    """Also for HAC, who have the most entries; the current page is marked."""
    person = await site.add_person(admin=True)
    async with site.browser(person) as page:
        await page.set_viewport_size({"width": width, "height": 800})
        for path in ("/overview", "/dead-letters", "/functions"):
            await page.goto(path)
            bottoms = await page.evaluate(TOPS)
            assert max(bottoms) - min(bottoms) <= 2, (path, bottoms)


async def test_the_group_opens_and_closes_by_keyboard(site: sites.Site) -> None:
    """Escape returns the focus; the label names the current page."""
    person = await site.add_person(admin=True)
    async with site.browser(person) as page:
        await page.goto("/")
        more = page.locator("header nav details")
        summary, entry = more.locator("summary"), more.get_by_role("link", name="Workers")
        await expect(summary).to_have_text("Operation")
        await expect(entry).to_be_hidden()
        await summary.focus()
        await page.keyboard.press("Enter")
        await expect(entry).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(more.get_by_role("link").first).to_be_focused()
        await page.evaluate(AXE.read_text("utf-8"))
        found = await page.evaluate("axe.run('header').then((found) => found.violations)")
        assert [x["id"] for x in found if x["impact"] in {"serious", "critical"}] == []
        await page.keyboard.press("Escape")
        await expect(entry).to_be_hidden()
        await expect(summary).to_be_focused()
        await summary.click()
        await page.locator("h1").click()
        await expect(entry).to_be_hidden()
        await summary.click()
        await entry.click()
        await page.wait_for_url("**/workers")
        await expect(summary).to_have_text("Operation: Workers")
        await expect(more.locator("[aria-current=page]")).to_have_attribute("href", "/workers")


async def test_every_page_is_in_the_menu_once(site: sites.Site) -> None:
    """Without scripts too; other users do not see the group Operation."""
    person, admin = await site.add_person(), await site.add_person(admin=True)
    async with site.browser(admin, script=False) as page:
        await page.goto("/")
        links = await page.locator("header nav a").all()
        paths = [await link.get_attribute("href") for link in links]
        assert sorted(map(str, paths)) == sorted(entry.path for entry in app.MENU)
        await page.locator("header nav summary").click()
        await page.get_by_role("link", name="Lanes").click()
        await expect(page.locator("h1")).to_have_text("Lanes")
    async with site.browser(person) as page:
        await page.goto("/")
        await expect(page.locator("header nav details")).to_have_count(0)
        await expect(page.locator("header nav a")).to_have_count(6)
