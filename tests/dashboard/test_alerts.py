"""Alerts: what is wrong is seen, tests are fired, silences begin and end, limits are changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL
from tests.database import queries

if TYPE_CHECKING:
    from tests.dashboard import place as places


async def test_an_alert_is_seen_silenced_and_tested(place: places.Place) -> None:
    """Everything HAC does about alerts, in a browser."""
    admin, factory = await place.person(admin=True), place.functions.factory
    await factory.call("report_gauge", p_gauge="free_disk_share", p_value=0.02)
    await factory.call("evaluate_alerts")
    await factory.conn.execute(
        "update private.alert_states set broken_since = now() - interval '1 hour' "
        "where broken_since is not null"
    )
    await factory.call("evaluate_alerts")
    async with place.browser(admin) as page:
        await page.goto("/alerts")
        row = page.locator("#rules tbody tr").first
        await expect(row).to_contain_text("disk-critical")
        await expect(row).to_contain_text("critical")
        await expect(row.locator("[data-label=Now]")).to_have_text("2.0%")
        await expect(row).to_contain_text("Free disk space at once")
        await page.locator("select[name=rule]").select_option("disk-critical")
        await page.locator("input[name=reason]").fill(f"new disk {EVIL}")
        await page.get_by_role("button", name="Tell nobody").click()
        await expect(page.locator("#notice")).to_contain_text("Nobody is told of disk-critical")
        await expect(page.locator(".cards").first).to_contain_text(f"new disk {EVIL}")
        await expect(row).to_contain_text("silenced")
        await page.get_by_role("button", name="End it now: disk-critical").click()
        await expect(page.locator("#notice")).to_contain_text("The silence is over")
        await page.get_by_role("button", name="Fire as a test: slow-warning").click()
        told = page.locator("tr", has_text="slack").first
        await expect(told).to_contain_text("slow-warning")
        await expect(told).to_contain_text("waiting")
        await page.get_by_label("More than, in seconds: slow-warning").fill("120.5")
        await page.get_by_label("watched: slow-warning").uncheck()
        await page.get_by_role("button", name="Save slow-warning").click()
        said = "no longer watched, with the limit 120.5"
        await expect(page.locator("#notice")).to_contain_text(said)
    rule = await queries.one(
        factory.conn, "select threshold, enabled from alert_rules where rule = 'slow-warning'"
    )
    assert (rule["threshold"], rule["enabled"]) == (120.5, False)


async def test_alerts_are_for_hac_and_silences_have_reasons(place: places.Place) -> None:
    """Others see nothing and change nothing."""
    admin, other = await place.person(admin=True), await place.person()
    async with place.visitor(admin) as client:
        form = {"csrf": await csrf(client)}
        blank = await client.post("/alerts/silence", data=form | {"reason": " "})
        assert "Say why" in (await client.get(blank.headers["location"])).text
        answers = [
            await client.post("/alerts/rules/nope/test", data=form),
            await client.post("/alerts/rules/disk-warning", data=form | {"threshold": "nan"}),
        ]
        assert [answer.status_code for answer in answers] == [400, 400]
    async with place.visitor(other) as client:
        form = {"csrf": await csrf(client)}
        assert (await client.get("/alerts")).status_code == 403
        assert (await client.post("/alerts/rules/disk-warning/test", data=form)).status_code == 403
