"""Routing: files of unknown type are sent to a lane or rejected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from pagewarden.dashboard.pages import routing
from pagewarden.ocr import file_types
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    import uuid

    from tests.dashboard import site as sites


async def _statuses(site: sites.Site, *documents: uuid.UUID) -> list[str]:
    found = {each["id"]: each for each in await site.functions.documents()}
    return [found[str(document)]["ocr_status"] for document in documents]


async def test_files_are_sent_to_a_lane_or_refused(site: sites.Site) -> None:
    """One or many; a refusal needs a reason, which the audit log keeps."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    created = [
        await factory.queued(person.case, lane=None, p_file_extension="xyz", p_size_bytes=12345)
        for _ in range(4)
    ]
    await site.functions.upload(person.id, b"PK\x03\x04\0<b>", "Tabelle.xlsx")
    async with site.browser(person) as page:
        await page.goto("/")
        page.on("dialog", lambda dialog: dialog.accept())
        await page.locator("#go-awaiting-routing").click()
        cards, notice = page.locator(".cards > li"), page.locator("#notice")
        await expect(cards).to_have_count(5)
        await cards.last.scroll_into_view_if_needed()
        await expect(cards.last).to_contain_text("Looks like a ZIP archive")
        await expect(cards.last.locator("code")).to_have_text("PK···<b>")
        await expect(cards.first).to_contain_text("The file is missing.")
        await expect(cards.first).to_contain_text("12,345 bytes")
        await expect(cards.first).to_contain_text("xyz")
        await expect(cards.first.locator("figcaption")).to_be_visible()
        await page.get_by_role("button", name="Send to lane").click()
        await expect(notice).to_contain_text("select at least one")

        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_label("Lane").select_option("pdf")
        await page.get_by_role("button", name="Send to lane").click()
        await expect(notice).to_contain_text("Sent to lane pdf: 1 document.")

        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_role("button", name="Reject").click()
        await expect(notice).to_contain_text("enter a reason for the rejection")
        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_label("Notes").fill("a spreadsheet")
        await page.get_by_role("button", name="Reject").click()
        await expect(notice).to_contain_text("Rejected: 1 document.")

        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_role("button", name="Send to lane").click()
        await expect(notice).to_contain_text("select a lane")
        await page.get_by_label("Select all shown").check()
        await expect(page.get_by_text("3 selected")).to_be_visible()
        await page.get_by_label("Lane").select_option("image")
        await page.get_by_role("button", name="Send to lane").click()
        await expect(page.get_by_text("No files are awaiting routing.")).to_be_visible()
        site.problems.clear()  # there are no files to draw
    assert await _statuses(site, *created) == ["queued_for_pdf", "cancelled", "queued", "queued"]
    found = await factory.conn.execute(
        "select action_description, user_id from hac_logs where action_type = 'cancelled'"
    )
    assert await found.fetchall() == [("a spreadsheet", person.id)]


@pytest.mark.parametrize(
    ("first", "guess"),
    [
        (b"%PDF-1.7", "a PDF"),
        (b"", "is empty"),
        ("Grüße an alle".encode()[:3], "plain text"),
        (b"one\ntwo\t", "plain text"),
        (b"\x00\x01\x02", "Unknown file type"),
        (b"\xfe\xff\xfe\xff", "Unknown file type"),
    ],
)
def test_first_bytes_are_shown(first: bytes, guess: str) -> None:
    """As text, with a guess of the type."""
    found = file_types.preview(first)
    assert guess in found.guess
    assert found.text.isprintable()


async def test_files_routed_by_others_are_skipped(site: sites.Site) -> None:
    """A refusal does not cancel a file that another user has sent to a lane."""
    person, other = await site.add_person(admin=True), await site.add_person(admin=True)
    created = [await site.functions.factory.queued(person.case, lane=None) for _ in range(2)]
    ids = [str(each) for each in created]
    async with site.client(person) as client, site.client(other) as late:
        form = {"csrf": await csrf(client), "id": ids[0], "lane": "image"}
        await client.post("/routing/send", data=form)
        form = {"csrf": await csrf(late), "notes": "no document"}
        answer = await late.post("/routing/refuse", data=form | {"id": ids})
        notice = await late.get(answer.headers["location"])
        again = await late.post("/routing/send", data=form | {"id": ids, "lane": "image"})
        nothing = await late.get(again.headers["location"])
        assert (await late.post("/routing/send", data=form | {"lane": "no"})).status_code == 303
        wrong = await late.post("/routing/send", data=form | {"id": ids, "lane": "no"})
    assert "Rejected: 1 document." in notice.text
    assert f"its status is now queued; last act: requeued, by {person.email}" in notice.text
    assert "No changes were made. Skipped 2" in nothing.text
    assert wrong.status_code == 400
    assert await _statuses(site, *created) == ["queued", "cancelled"]


async def test_the_list_of_files_is_paged(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oldest first, each once; only for HAC; markup is escaped."""
    monkeypatch.setattr(routing, "ROWS", 2)
    person, admin = await site.add_person(), await site.add_person(admin=True)
    factory = site.functions.factory
    created = [str(await factory.queued(person.case, lane=None)) for _ in range(5)]
    await factory.conn.execute("update documents set name = %s where id = %s", (EVIL, created[0]))
    seen: list[str] = []
    async with site.client(admin) as client, site.client(person) as owner:
        path: str | None = "/routing"
        while path:
            answer = await client.get(path)
            assert "<script>document" not in answer.text
            seen += re.findall(r'name="id" value="([0-9a-f-]+)"', answer.text)
            more = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = more[1].replace("&amp;", "&") if more else None
        assert (await client.get("/routing?after=x&after_urgency=1")).status_code == 400
        assert (await owner.get("/routing")).status_code == 403
        form = {"csrf": await csrf(owner), "id": created[0], "lane": "image", "notes": "x"}
        for act in ("send", "refuse"):
            assert (await owner.post(f"/routing/{act}", data=form)).status_code == 403
    assert seen == created
