"""Workers: seen while they live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_guards import EVIL

if TYPE_CHECKING:
    from tests.dashboard import site as sites


async def test_the_list_of_workers_updates_live(site: sites.Site) -> None:
    """Empty, then with an idle, a reading and a silent worker."""
    admin, factory = await site.add_person(admin=True), site.functions.factory
    async with site.browser(admin) as page:
        await page.goto("/workers")
        content = page.locator("#workers")
        await expect(content).to_contain_text("No workers have been seen in the last ten minutes")
        await factory.report_workers(f"host-1 {EVIL}")
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("idle")
        await expect(row).to_contain_text("image, pdf")
        claim = await factory.claimed(admin.case, worker=f"host-1 {EVIL}")
        await expect(row.locator("a")).to_have_attribute("href", f"/documents/{claim.document_id}")
        await expect(content).to_contain_text("1 reading, 0 idle")
        conn = await site.functions.database.connect()
        await conn.execute("update documents set lock_expires_at = now() - interval '1 minute'")
        await expect(row).to_contain_text("silent")
        await expect(content).to_contain_text("1 silent")


async def test_workers_are_for_hac(site: sites.Site) -> None:
    """Other users see neither the page nor its fragment."""
    async with site.client(await site.add_person()) as client:
        for headers in ({}, {"HX-Request": "true", "HX-Target": "workers"}):
            assert (await client.get("/workers", headers=headers)).status_code == 403
