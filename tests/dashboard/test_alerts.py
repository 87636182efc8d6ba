"""Alerts: what is wrong is seen, tests are fired, silences begin and end, limits are changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf
from tests.database import queries

if TYPE_CHECKING:
    from tests.dashboard import site as sites


async def test_alerts_are_shown_silenced_and_tested(site: sites.Site) -> None:
    """HAC sees an alert, silences it, sends a test and changes the rule."""
    admin, factory = await site.add_person(admin=True), site.functions.factory
    await factory.call("report_gauge", p_gauge="free_disk_share", p_value=0.02)
    await factory.call("evaluate_alerts")
    await factory.conn.execute(
        "update private.alert_states set broken_since = now() - interval '1 hour' "
        "where broken_since is not null"
    )
    await factory.call("evaluate_alerts")
    async with site.browser(admin) as page:
        await page.goto("/alerts")
        row = page.locator("#rules tbody tr").first
        await expect(row).to_contain_text("disk-critical")
        await expect(row).to_contain_text("critical")
        await expect(row.locator("[data-label=Now]")).to_have_text("2.0%")
        await expect(row).to_contain_text("Free disk space immediately")
        await page.locator("select[name=rule]").select_option("disk-critical")
        await page.locator("input[name=reason]").fill(f"new disk {EVIL}")
        await page.get_by_role("button", name="Silence").click()
        await expect(page.locator("#notice")).to_contain_text("disk-critical: silenced.")
        await expect(page.locator(".cards").first).to_contain_text(f"new disk {EVIL}")
        await expect(row).to_contain_text("silenced")
        await page.get_by_role("button", name="End silence: disk-critical").click()
        await expect(page.locator("#notice")).to_contain_text("Silence ended")
        await page.get_by_role("button", name="Send test alert: slow-warning").click()
        notification = page.locator("tr", has_text="slack").first
        await expect(notification).to_contain_text("slow-warning")
        await expect(notification).to_contain_text("waiting")
        await page.get_by_label("Fires above (seconds): slow-warning").fill("120.5")
        await page.get_by_label("Enabled: slow-warning").uncheck()
        await page.get_by_role("button", name="Save slow-warning").click()
        message = "disabled, threshold 120.5"
        await expect(page.locator("#notice")).to_contain_text(message)
    rule = await queries.one(
        factory.conn, "select threshold, enabled from alert_rules where rule = 'slow-warning'"
    )
    assert (rule["threshold"], rule["enabled"]) == (120.5, False)


async def test_alerts_are_for_hac_and_silences_have_reasons(site: sites.Site) -> None:
    """Other users cannot open or change alerts; a silence needs a reason."""
    admin, other = await site.add_person(admin=True), await site.add_person()
    async with site.client(admin) as client:
        form = {"csrf": await csrf(client)}
        blank = await client.post("/alerts/silence", data=form | {"reason": " "})
        assert "Enter a reason" in (await client.get(blank.headers["location"])).text
        answers = [
            await client.post("/alerts/rules/nope/test", data=form),
            await client.post("/alerts/rules/disk-warning", data=form | {"threshold": "nan"}),
        ]
        assert [answer.status_code for answer in answers] == [400, 400]
    async with site.client(other) as client:
        form = {"csrf": await csrf(client)}
        assert (await client.get("/alerts")).status_code == 403
        assert (await client.post("/alerts/rules/disk-warning/test", data=form)).status_code == 403
