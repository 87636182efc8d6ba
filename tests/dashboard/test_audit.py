"""Audit: who did what, found and taken away."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.dashboard.pages import audit
from tests.dashboard.test_guards import EVIL

if TYPE_CHECKING:
    import pytest

    from tests.dashboard import site as sites


async def test_entries_are_filtered_by_user_action_case_and_time(site: sites.Site) -> None:
    """Filters apply on change; a document links to its own log."""
    admin, other = await site.add_person(admin=True), await site.add_person()
    factory = site.functions.factory
    document = await factory.completed(other.case)
    async with site.functions.database.acting_as(other.id) as conn:
        await conn.execute("select delete_document(%s)", (document,))
    await factory.call("pause_lane", p_lane="pdf", p_reason=EVIL)
    async with site.browser(admin) as page:
        await page.goto("/audit")
        rows = page.locator("#results tbody tr")
        await expect(rows.first).to_contain_text(EVIL)
        whole = await rows.count()
        assert whole > 3
        await page.get_by_label("User (e-mail)").fill(other.email)
        await page.get_by_label("User (e-mail)").press("Enter")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("deleted")
        await page.get_by_label("User (e-mail)").fill("")
        await page.get_by_label("Action").select_option("ocr_completed")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("OCR completed for")
        await page.get_by_label("Action").select_option("")
        await page.locator("select[name=case]").select_option(str(other.case))
        await expect(rows).to_have_count(2)
        await page.get_by_label("Until").fill("2020-01-01T00:00")
        await expect(page.locator("#results")).to_contain_text("No matching entries")
        await page.goto(f"/audit?document={document}")
        await expect(rows).to_have_count(2)
        await page.get_by_role("link", name="Show all").click()
        await expect(rows).to_have_count(whole)


async def test_users_see_the_log_of_their_cases(site: sites.Site) -> None:
    """Not that of other cases, nor the addresses of other users."""
    person, other, admin = (
        await site.add_person(),
        await site.add_person(),
        await site.add_person(admin=True),
    )
    factory = site.functions.factory
    await factory.completed(other.case)
    mine = await factory.completed(person.case)
    async with site.functions.database.acting_as(admin.id) as conn:
        await conn.execute("select delete_document(%s)", (mine,))
    async with site.client(person) as client:
        text = (await client.get("/audit")).text
        assert (text.count("<tr>") - 1, admin.email in text) == (2, False)
        assert "another user" in text
        assert "No matching entries" in (await client.get(f"/audit?person={admin.email}")).text
        assert "No matching entries" in (await client.get(f"/audit?case={other.case}")).text


async def test_matching_entries_are_downloaded_as_csv(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Across pages, without duplicates, and without formulas."""
    monkeypatch.setattr(audit, "_CSV_PAGE", 2)
    admin, factory = await site.add_person(admin=True), site.functions.factory
    for n in range(5):
        await factory.call("pause_lane", p_lane="pdf", p_reason=f"reason, no. {n}")
    document = await factory.queued(admin.case, p_document_name='=HYPERLINK("x")')
    await factory.call("cancel_document", p_document_id=document)
    async with site.browser(admin) as page:
        await page.goto("/audit?action=lane_paused")
        async with page.expect_download() as found:
            await page.get_by_role("link", name="Download as CSV").click()
        download = await found.value
    assert re.fullmatch(r"audit-\d{4}-\d\d-\d\d\.csv", download.suggested_filename)
    async with site.client(admin) as client:
        lanes = await client.get("/audit/csv?action=lane_paused")
        rows = list(csv.DictReader(io.StringIO(lanes.text)))
        assert [row["description"][-1] for row in rows] == ["4", "3", "2", "1", "0"]
        (cancelled,) = csv.DictReader(
            io.StringIO((await client.get("/audit/csv?action=cancelled")).text)
        )
        assert cancelled["document_name"] == '\'=HYPERLINK("x")'
        assert (await client.get("/audit/csv?case=nope")).status_code == 400


async def test_the_log_is_paged(site: sites.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is on one page; invalid filters lead to error pages."""
    monkeypatch.setattr(audit, "ROWS", 2)
    admin = await site.add_person(admin=True)
    for n in range(5):
        await site.functions.factory.call("pause_lane", p_lane="pdf", p_reason=f"reason {n}")
    seen: list[str] = []
    async with site.client(admin) as client:
        path: str | None = "/audit?action=lane_paused"
        while path:
            answer = await client.get(path)
            seen += re.findall(r"reason (\d)", answer.text)
            found = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = found[1].replace("&amp;", "&") if found else None
        for query in (
            "case=nope",
            "before=x",
            "since=yesterdayish",
            "person=%00",
            "until=2026-99-99T00:00",
        ):
            answer = await client.get(f"/audit?{query}")
            assert answer.status_code == 400, query
            assert "<h1>" in answer.text
    assert seen == ["4", "3", "2", "1", "0"]
