"""Functions: switched, scheduled, and how they ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.async_api import expect

from tests.dashboard.test_doors import csrf
from tests.support import polling

if TYPE_CHECKING:
    from tests.dashboard import place as places


async def test_a_function_is_switched_off_and_on(place: places.Place) -> None:
    """The next call is refused, and served again."""
    admin = await place.person(admin=True)
    async with place.browser(admin) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto("/functions")
        card = page.locator("#retention")
        await page.get_by_role("button", name="Switch off retention").click()
        await expect(page.locator("#notice")).to_contain_text("retention is off.")
        await expect(card.locator("h2")).to_contain_text("off")
        assert (await place.functions.serve("retention")).status_code == 503
        await page.get_by_role("button", name="Switch on retention").click()
        await expect(page.locator("#notice")).to_contain_text("retention is on.")
        assert (await place.functions.serve("retention")).status_code == 200

        async def has_ended() -> bool:
            await page.reload()  # its end is noted after its answer
            return "completed" in (await card.locator("tbody tr").first.text_content() or "")

        await polling.until(has_ended)


async def test_a_schedule_is_set_or_what_is_wrong_with_it_told(place: places.Place) -> None:
    """The field that makes no sense is named, with what would; the log has a line."""
    admin = await place.person(admin=True)
    async with place.browser(admin) as page:
        await page.goto("/functions")
        schedule = page.get_by_label("Schedule of webhooks", exact=True)
        for typed, said in (
            ("0 25 * * *", '"25" is no hour of a schedule'),
            ("every hour", "a schedule has five fields"),
            ("*/5 8-18 * * 1-5", "webhooks is called at */5 8-18 * * 1-5."),
            ("", "webhooks has no schedule."),
        ):
            await schedule.fill(typed)
            await page.get_by_role("button", name="Set the schedule of webhooks").click()
            await expect(page.locator("#notice")).to_contain_text(said)
        await expect(schedule).to_have_value("")
        await page.goto("/audit?action=function_changed")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator("tbody tr").first).to_contain_text("*/5 8-18 * * 1-5 → —")


async def test_functions_are_for_hac_and_known_by_name(place: places.Place) -> None:
    """Others are refused; a name that is none is told."""
    admin, other = await place.person(admin=True), await place.person()
    async with place.visitor(admin) as client:
        form = {"csrf": await csrf(client), "on": "false"}
        answer = await client.post("/functions/nope/switch", data=form)
        assert "there is no such function" in (await client.get("/functions")).text
        assert answer.status_code == 303
        assert (
            await client.post("/functions/retention/switch", data={**form, "on": "x"})
        ).status_code == 404
    async with place.visitor(other) as client:
        form = {"csrf": await csrf(client), "on": "false", "schedule": ""}
        for path in ("switch", "schedule"):
            assert (await client.post(f"/functions/retention/{path}", data=form)).status_code == 403
        assert (await client.get("/functions")).status_code == 403
