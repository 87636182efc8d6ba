"""Waiting for routing: files of unknown type are sent to a lane, or refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from dashboard import beginnings
from dashboard.pages import routing
from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL

if TYPE_CHECKING:
    import uuid

    from tests.dashboard import place as places


async def _statuses(place: places.Place, *documents: uuid.UUID) -> list[str]:
    found = {each["id"]: each for each in await place.functions.documents()}
    return [found[str(document)]["ocr_status"] for document in documents]


async def test_files_are_sent_to_a_lane_or_refused(place: places.Place) -> None:
    """One, a selection, or all; a refusal says why, and the audit log keeps it."""
    person, factory = await place.person(admin=True), place.functions.factory
    made = [
        await factory.queued(person.case, lane=None, p_file_extension="xyz", p_size_bytes=12345)
        for _ in range(4)
    ]
    await place.functions.upload(person.id, b"PK\x03\x04\0<b>", "Tabelle.xlsx")
    async with place.browser(person) as page:
        await page.goto("/")
        page.on("dialog", lambda dialog: dialog.accept())
        await page.locator("#go-waiting-for-routing").click()
        cards, said = page.locator(".cards > li"), page.locator("#notice")
        await expect(cards).to_have_count(5)
        await cards.last.scroll_into_view_if_needed()
        await expect(cards.last).to_contain_text("Looks like a ZIP archive")
        await expect(cards.last.locator("code")).to_have_text("PK···<b>")
        await expect(cards.first).to_contain_text("There is no file.")
        await expect(cards.first).to_contain_text("12,345 bytes")
        await expect(cards.first).to_contain_text("xyz")
        await expect(cards.first.locator("figcaption")).to_be_visible()
        await page.get_by_role("button", name="Send to the lane").click()
        await expect(said).to_contain_text("choose at least one")

        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_label("Lane").select_option("pdf")
        await page.get_by_role("button", name="Send to the lane").click()
        await expect(said).to_contain_text("Sent to lane pdf: 1 document.")

        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_role("button", name="Refuse").click()
        await expect(said).to_contain_text("say why they are refused")
        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_label("Notes").fill("a spreadsheet")
        await page.get_by_role("button", name="Refuse").click()
        await expect(said).to_contain_text("Refused: 1 document.")

        await cards.nth(0).get_by_role("checkbox").check()
        await page.get_by_role("button", name="Send to the lane").click()
        await expect(said).to_contain_text("choose a lane")
        await page.get_by_label("Choose all shown").check()
        await expect(page.get_by_text("3 chosen")).to_be_visible()
        await page.get_by_label("Lane").select_option("image")
        await page.get_by_role("button", name="Send to the lane").click()
        await expect(page.get_by_text("Nothing waits for routing.")).to_be_visible()
        place.problems.clear()  # there are no files to draw
    assert await _statuses(place, *made) == ["queued_for_pdf", "cancelled", "queued", "queued"]
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
        (b"\x00\x01\x02", "Nobody knows"),
        (b"\xfe\xff\xfe\xff", "Nobody knows"),
    ],
)
def test_first_bytes_are_a_hint(first: bytes, guess: str) -> None:
    """Whatever they are, they are shown as text that can do no harm."""
    found = beginnings.look(first)
    assert guess in found.guess
    assert found.shown.isprintable()


async def test_a_file_that_somebody_else_saw_to_is_told(place: places.Place) -> None:
    """Refusing does not cancel what another has sent to a lane meanwhile."""
    person, other = await place.person(admin=True), await place.person(admin=True)
    made = [await place.functions.factory.queued(person.case, lane=None) for _ in range(2)]
    ids = [str(each) for each in made]
    async with place.visitor(person) as client, place.visitor(other) as late:
        form = {"csrf": await csrf(client), "id": ids[0], "lane": "image"}
        await client.post("/routing/send", data=form)
        form = {"csrf": await csrf(late), "notes": "no document"}
        answer = await late.post("/routing/refuse", data=form | {"id": ids})
        said = await late.get(answer.headers["location"])
        again = await late.post("/routing/send", data=form | {"id": ids, "lane": "image"})
        nothing = await late.get(again.headers["location"])
        assert (await late.post("/routing/send", data=form | {"lane": "no"})).status_code == 303
        wrong = await late.post("/routing/send", data=form | {"id": ids, "lane": "no"})
    assert "Refused: 1 document." in said.text
    assert f"it is queued now; last act: requeued, by {person.email}" in said.text
    assert "Nothing was done. Skipped 2" in nothing.text
    assert wrong.status_code == 400
    assert await _statuses(place, *made) == ["queued", "cancelled"]


async def test_files_wait_page_by_page(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest first, each once; only HAC sees them; nothing in a name runs."""
    monkeypatch.setattr(routing, "ROWS", 2)
    person, admin = await place.person(), await place.person(admin=True)
    factory = place.functions.factory
    made = [str(await factory.queued(person.case, lane=None)) for _ in range(5)]
    await factory.conn.execute("update documents set name = %s where id = %s", (EVIL, made[0]))
    seen: list[str] = []
    async with place.visitor(admin) as client, place.visitor(person) as owner:
        path: str | None = "/routing"
        while path:
            answer = await client.get(path)
            assert "<script>document" not in answer.text
            seen += re.findall(r'name="id" value="([0-9a-f-]+)"', answer.text)
            more = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = more[1].replace("&amp;", "&") if more else None
        assert (await client.get("/routing?after=x&after_urgency=1")).status_code == 400
        assert (await owner.get("/routing")).status_code == 403
        form = {"csrf": await csrf(owner), "id": made[0], "lane": "image", "notes": "x"}
        for act in ("send", "refuse"):
            assert (await owner.post(f"/routing/{act}", data=form)).status_code == 403
    assert seen == made
