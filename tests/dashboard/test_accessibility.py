"""Everybody can use the pages: axe finds nothing serious, light and dark, large and small."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pagewarden.dashboard import app
from tests.dashboard import scans, screens

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.dashboard import site as sites

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture
def reader() -> screens.Reader:
    """Return a reader of the drawn lines."""
    return screens.Reader()


async def require_usable(page: Page, path: str) -> None:
    """Check that axe finds nothing serious on a page, and that it fits on a phone.

    In dark mode nothing but the colours differs.
    """
    await page.goto(path)
    await page.evaluate(AXE.read_text("utf-8"))
    assert await _serious(page, "axe.run()") == [], path
    await page.emulate_media(color_scheme="dark")
    assert await _serious(page, "axe.run({runOnly: ['color-contrast']})") == [], path
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 360, "height": 700})
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360, path
    await page.set_viewport_size({"width": 1200, "height": 800})


async def _serious(page: Page, run: str) -> list[Any]:
    found = await page.evaluate(f"{run}.then((found) => found.violations)")
    return [x for x in found if x["impact"] in {"serious", "critical"}]


async def test_axe_finds_nothing_serious(site: sites.Site, reader: screens.Reader) -> None:
    """On all pages; and no page is wider than a phone."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    pictures = {"a.png": screens.BAD, "b.png": screens.GOOD}
    job = await screens.submit_job(site, reader, person, pictures)
    await site.functions.read()
    await screens.submit_job(site, reader, person, pictures, name="under way")
    document = await factory.completed(person.case, text="the treaty")
    unsure = await scans.upload_scan(
        site, person, (scans.Line("sure"), scans.Line("unsure", 0.7), scans.Line("bad", 0.2))
    )
    letter, typed = [await factory.dead_letter(person.case) for _ in range(2)]
    await factory.call("resolve_dead_letter", p_dlq_id=typed.dlq_id, p_action="manual")
    await factory.queued(person.case, lane=None)
    await factory.task()
    claim = await factory.claimed(person.case)
    await factory.conn.execute(
        "update documents set claimed_at = claimed_at - interval '1 hour' where id = %s",
        (claim.document_id,),
    )
    await factory.call("pause_lane", p_lane="pdf", p_reason="new disks")
    await factory.call("begin_function_run", p_function_name="retention")
    pages = (
        "/sign-in",
        *(entry.path for entry in app.MENU),
        "/documents?q=treaty",
        f"/documents/{document}",
        f"/documents/{unsure}/review?page=1",
        "/documents/x",
        f"/dead-letters/{letter.dlq_id}",
        f"/dead-letters/{typed.dlq_id}/type",
        "/dead-letters?category=permanent",
        f"/cases/{person.case}",
        f"/cases/{person.case}/erase",
        f"/audit?document={document}",
        f"/checks/{job}",
        f"/checks/{job}?show=undecided",
        f"/checks/{job}/pictures/1",
        f"/checks/{job}/pictures/2",
    )
    async with site.browser(person) as page:
        for path in pages:
            await require_usable(page, path)
        site.problems.clear()  # the browser tells of the page that is not there
