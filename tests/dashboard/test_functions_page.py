"""Functions: switched, scheduled, and how they ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_login import csrf
from tests.support import polling

if TYPE_CHECKING:
    from tests.dashboard import site as sites


async def test_a_function_is_switched_off_and_on(site: sites.Site) -> None:
    """It applies to the next call."""
    admin = await site.add_person(admin=True)
    async with site.browser(admin) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto("/functions")
        card = page.locator("#retention")
        await page.get_by_role("button", name="Switch off: retention").click()
        await expect(page.locator("#notice")).to_contain_text("retention is now off.")
        await expect(card.locator("h2")).to_contain_text("off")
        assert (await site.functions.serve("retention")).status_code == 503
        await page.get_by_role("button", name="Switch on: retention").click()
        await expect(page.locator("#notice")).to_contain_text("retention is now on.")
        assert (await site.functions.serve("retention")).status_code == 200

        async def has_ended() -> bool:
            await page.reload()  # its end is noted after its answer
            return "completed" in (await card.locator("tbody tr").first.text_content() or "")

        await polling.wait_until(has_ended)


async def test_schedules_are_validated(site: sites.Site) -> None:
    """The error names the invalid field; changes are logged."""
    admin = await site.add_person(admin=True)
    async with site.browser(admin) as page:
        await page.goto("/functions")
        schedule = page.get_by_label("Schedule of webhooks", exact=True)
        for typed, message in (
            ("0 25 * * *", 'invalid hour "25" in the schedule'),
            ("every hour", "a schedule must have five fields"),
            ("*/5 8-18 * * 1-5", "webhooks: schedule */5 8-18 * * 1-5."),
            ("", "webhooks: no schedule."),
        ):
            await schedule.fill(typed)
            await page.get_by_role("button", name="Set schedule of webhooks").click()
            await expect(page.locator("#notice")).to_contain_text(message)
        await expect(schedule).to_have_value("")
        await page.goto("/audit?action=function_changed")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator("tbody tr").first).to_contain_text("*/5 8-18 * * 1-5 → —")


async def test_functions_are_for_hac(site: sites.Site) -> None:
    """Unknown functions are rejected."""
    admin, other = await site.add_person(admin=True), await site.add_person()
    async with site.client(admin) as client:
        form = {"csrf": await csrf(client), "on": "false"}
        answer = await client.post("/functions/nope/switch", data=form)
        assert "there is no such function" in (await client.get("/functions")).text
        assert answer.status_code == 303
        assert (
            await client.post("/functions/retention/switch", data={**form, "on": "x"})
        ).status_code == 404
    async with site.client(other) as client:
        form = {"csrf": await csrf(client), "on": "false", "schedule": ""}
        for path in ("switch", "schedule"):
            assert (await client.post(f"/functions/retention/{path}", data=form)).status_code == 403
        assert (await client.get("/functions")).status_code == 403
