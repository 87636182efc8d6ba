"""Lanes: paused, drained, resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL
from tests.database import factories

if TYPE_CHECKING:
    from tests.dashboard import place as places


async def test_a_lane_is_drained_and_resumed(place: places.Place) -> None:
    """It says who paused it and why, and tells by itself when nothing is in hand any more."""
    admin, factory = await place.person(admin=True), place.functions.factory
    claim = await factory.claimed(admin.case)
    await factory.queued(admin.case)
    async with place.browser(admin) as page:
        await page.goto("/lanes")
        row = page.locator("#lanes tbody tr", has=page.get_by_role("rowheader", name="image"))
        await expect(row).to_contain_text("open")
        await page.get_by_label("Why lane image is paused").fill(f"new disks {EVIL}")
        await page.get_by_role("button", name="Pause and drain image").click()
        await expect(page.locator("#notice")).to_contain_text("still in hand: 1 document.")
        await expect(row).to_contain_text("paused, draining")
        await expect(row).to_contain_text(f"new disks {EVIL}")
        await expect(row).to_contain_text(f"by {admin.email}")
        await expect(row.locator("[data-label='In hand']")).to_have_text("1")
        assert await factories.call(factory.conn, "claim_documents", p_worker_id="w") == []
        key = {"p_document_id": claim.document_id, "p_lock_token": claim.lock_token}
        await factory.call("fail_document", **key, p_error_message="broken")
        await expect(row).to_contain_text("paused, drained")
        await expect(row.locator("[data-label='Waiting to retry']")).to_have_text("1")
        await page.get_by_role("button", name="Resume image").click()
        await expect(row).to_contain_text("open")
        await page.locator("summary[aria-label='Limits of pdf']").click()
        await expect(page.locator("details[open]")).to_contain_text("Longest attempt2 h")


async def test_a_pause_has_a_reason_and_a_lane(place: places.Place) -> None:
    """Without either nothing is paused; and it is for HAC."""
    admin, other = await place.person(admin=True), await place.person()
    async with place.visitor(admin) as client:
        form = {"csrf": await csrf(client)}
        blank = await client.post("/lanes/pdf/pause", data=form | {"reason": " "})
        assert "Say why it is paused" in (await client.get(blank.headers["location"])).text
        assert (
            await client.post("/lanes/nope/pause", data=form | {"reason": "x"})
        ).status_code == 400
        again = await client.post("/lanes/pdf/resume", data=form)
        assert "Lane pdf was running" in (await client.get(again.headers["location"])).text
    async with place.visitor(other) as client:
        form = {"csrf": await csrf(client), "reason": "x"}
        assert (await client.post("/lanes/pdf/pause", data=form)).status_code == 403
        assert (await client.get("/lanes")).status_code == 403
