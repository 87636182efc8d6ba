"""Workers: seen while they live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_guards import EVIL

if TYPE_CHECKING:
    from tests.dashboard import place as places


async def test_workers_come_read_and_go_before_ones_eyes(place: places.Place) -> None:
    """The page follows by itself: nobody, one that waits, one that reads, one that left."""
    admin, factory = await place.person(admin=True), place.functions.factory
    async with place.browser(admin) as page:
        await page.goto("/workers")
        content = page.locator("#workers")
        await expect(content).to_contain_text("Nobody reads")
        report = {"p_worker_id": f"host-1 {EVIL}", "p_lanes": ["image", "pdf"]}
        await factory.call("report_worker", **report)
        row = page.locator("tbody tr")
        await expect(row).to_contain_text("waits for documents")
        await expect(row).to_contain_text("image, pdf")
        claim = await factory.claimed(admin.case, worker=f"host-1 {EVIL}")
        await expect(row.locator("a")).to_have_attribute("href", f"/documents/{claim.document_id}")
        await expect(content).to_contain_text("1 reading, 0 waiting")
        conn = await place.functions.database.connect()
        await conn.execute("update documents set lock_expires_at = now() - interval '1 minute'")
        await expect(row).to_contain_text("not heard of")
        await expect(content).to_contain_text("1 not heard of")


async def test_what_workers_read_is_for_hac(place: places.Place) -> None:
    """Others see neither the page nor its part."""
    async with place.visitor(await place.person()) as client:
        for headers in ({}, {"HX-Request": "true", "HX-Target": "workers"}):
            assert (await client.get("/workers", headers=headers)).status_code == 403
