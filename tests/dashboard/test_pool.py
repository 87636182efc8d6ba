"""Pool: seen as it is, and as it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from tests.dashboard import site as sites


async def test_the_pool_updates_live(site: sites.Site) -> None:
    """Empty at first, then with lanes, workers and charts."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    async with site.browser(person) as page:
        await page.goto("/pool")
        await expect(page.locator("#pool")).to_contain_text("The pool has no workers")
        claim = await factory.claimed(person.case, lane="acte")
        await factory.queued(person.case, lane="index")
        workers = [
            {"worker_id": "a-1", "lane": "acte", "document_id": str(claim.document_id)},
            {"worker_id": "a-2"},
        ]
        await factory.call(
            "report_pool", p_process="a", p_lanes=["acte", "index"], p_workers=Jsonb(workers)
        )
        await factory.call("lead_pool", p_process="a", p_lease_seconds=60)
        await factory.call(
            "assign_pool",
            p_process="a",
            p_term=1,
            p_workers=Jsonb([{"worker_id": name, "lane": "index"} for name in ("a-1", "a-2")]),
            p_backlog=Jsonb({"index": 1, "acte": 0}),
        )
        await expect(page.locator("#pool")).to_contain_text("2 workers; leader: a")
        await expect(page.locator("#pool")).to_contain_text("from lane acte")
        await expect(page.locator("svg[aria-label^='Workers in index']")).to_be_visible()
        await expect(page.locator("svg[aria-label^='Reassigned workers']")).to_be_visible()


async def test_the_pool_is_for_hac(site: sites.Site) -> None:
    """Other users cannot open it."""
    async with site.client(await site.add_person()) as client:
        assert (await client.get("/pool")).status_code == 403
