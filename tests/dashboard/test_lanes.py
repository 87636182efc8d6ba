"""Lanes: paused, drained, resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf
from tests.database import factories

if TYPE_CHECKING:
    from tests.dashboard import site as sites


async def test_a_lane_is_drained_and_resumed(site: sites.Site) -> None:
    """The page shows who paused it and why, and updates live until it is drained."""
    admin, factory = await site.add_person(admin=True), site.functions.factory
    claim = await factory.claimed(admin.case)
    await factory.queued(admin.case)
    async with site.browser(admin) as page:
        await page.goto("/lanes")
        row = page.locator("#lanes tbody tr", has=page.get_by_role("rowheader", name="image"))
        await expect(row).to_contain_text("open")
        await page.get_by_label("Reason for pausing image").fill(f"new disks {EVIL}")
        await page.get_by_role("button", name="Pause and drain image").click()
        await expect(page.locator("#notice")).to_contain_text("1 document in progress.")
        await expect(row).to_contain_text("paused, draining")
        await expect(row).to_contain_text(f"new disks {EVIL}")
        await expect(row).to_contain_text(f"by {admin.email}")
        await expect(row.locator("[data-label='In progress']")).to_have_text("1")
        assert await factories.call(factory.conn, "claim_documents", p_worker_id="w") == []
        key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
        await factory.call("fail_document", **key, p_error_message="broken")
        await expect(row).to_contain_text("paused, drained")
        await expect(row.locator("[data-label='Waiting to retry']")).to_have_text("1")
        await page.get_by_role("button", name="Resume image").click()
        await expect(row).to_contain_text("open")
        await page.locator("summary[aria-label='Limits for pdf']").click()
        await expect(page.locator("details[open]")).to_contain_text("Maximum attempt duration2 h")


async def test_a_pause_needs_a_reason_and_a_known_lane(site: sites.Site) -> None:
    """Only HAC can pause lanes."""
    admin, other = await site.add_person(admin=True), await site.add_person()
    async with site.client(admin) as client:
        form = {"csrf": await csrf(client)}
        blank = await client.post("/lanes/pdf/pause", data=form | {"reason": " "})
        assert "Enter a reason for the pause" in (await client.get(blank.headers["location"])).text
        assert (
            await client.post("/lanes/nope/pause", data=form | {"reason": "x"})
        ).status_code == 400
        again = await client.post("/lanes/pdf/resume", data=form)
        assert "Lane pdf was not paused" in (await client.get(again.headers["location"])).text
    async with site.client(other) as client:
        form = {"csrf": await csrf(client), "reason": "x"}
        assert (await client.post("/lanes/pdf/pause", data=form)).status_code == 403
        assert (await client.get("/lanes")).status_code == 403
