"""Documents: found, opened, acted upon."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from dashboard.pages import documents
from pagewarden.database import tables
from tests.dashboard.test_doors import csrf

if TYPE_CHECKING:
    import httpx
    import pytest

    from tests.dashboard import place as places


def _listed(answer: httpx.Response) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/documents/([0-9a-f-]+)"', answer.text)


async def test_a_document_is_found_by_what_it_says(place: places.Place) -> None:
    """Typing is enough; hits are marked, and lead to the page of the document."""
    person = await place.person()
    await place.functions.factory.completed(person.case, text="the treaty of Westphalia")
    await place.functions.factory.completed(person.case, text="something else")
    async with place.browser(person) as page:
        await page.goto("/")
        await page.get_by_role("searchbox").fill("treaty")
        await expect(page.locator(".hits mark")).to_have_text("treaty")
        await expect(page).to_have_url(re.compile("q=treaty"))
        await page.locator(".hits a").first.click()
        await expect(page.locator("pre")).to_have_text("the treaty of Westphalia")


async def test_a_document_is_acted_upon(place: places.Place) -> None:
    """Read again with wishes, cancel, delete, restore and erase, each by its button."""
    person = await place.person()
    document = await place.functions.factory.completed(person.case)
    async with place.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(f"/documents/{document}")
        status = page.locator(".facts .status")
        await page.get_by_text("Read again").first.click()
        await page.get_by_label("Engine").select_option("tesseract")
        await page.get_by_label("Language").fill("ita")
        for button, outcome in (
            ("Read again", "queued"),
            ("Cancel", "cancelled"),
            ("Delete", "in the bin"),
            ("Restore", "cancelled"),
        ):
            await page.get_by_role("button", name=button, exact=True).click()
            await expect(page.locator(".facts div").first).to_contain_text(outcome)
        await expect(status).to_have_text("cancelled")
        (seen,) = await place.functions.used.database.select(tables.documents)
        assert (seen["engine"], seen["language"]) == ("tesseract", "ita")
        await page.get_by_role("button", name="Erase").click()
        await expect(page.locator("#notice")).to_contain_text("It is erased")
        await expect(page).to_have_url(re.compile("/documents$"))
    assert await place.functions.used.database.select(tables.documents) == []


async def test_earlier_readings_are_looked_at(place: places.Place) -> None:
    """The text of a reading stays when the document is read again."""
    person, factory = await place.person(), place.functions.factory
    document = await factory.completed(person.case, text="read first")
    async with place.browser(person) as page:
        await page.goto(f"/documents/{document}")
        await page.get_by_text("Read again").first.click()
        await page.get_by_role("button", name="Read again").click()
        await place.functions.read()
        await expect(page.locator("pre")).to_have_text("text")
        await page.get_by_text("Read 2 times").click()
        await page.locator(".versions a").click()
        await expect(page.locator("pre")).to_have_text("read first")


async def test_a_document_completes_while_its_page_is_open(place: places.Place) -> None:
    """The page shows it by itself, with its text and its downloads."""
    person = await place.person()
    uploaded = await place.functions.upload(person.id, b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    async with place.browser(person) as page:
        await page.goto(f"/documents/{uploaded.json()['document_id']}")
        await expect(page.locator(".facts .status")).to_have_text("queued")
        await place.functions.read()
        await expect(page.locator(".facts .status")).to_have_text("completed")
        await expect(page.locator("pre")).to_have_text("text")
        async with page.expect_download() as found:
            await page.get_by_role("link", name="TXT").click()
        assert (await found.value).suggested_filename == "scan.txt"


async def test_lists_go_on_where_they_ended(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each document is on one page, newest first."""
    monkeypatch.setattr(documents, "ROWS", 2)
    person = await place.person()
    made = [str(await place.functions.factory.queued(person.case)) for _ in range(5)]
    seen: list[str] = []
    async with place.visitor(person) as client:
        path: str | None = "/documents"
        while path:
            answer = await client.get(path)
            seen += _listed(answer)
            found = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = found[1].replace("&amp;", "&") if found else None
    assert seen == made[::-1]


async def test_filters_choose(place: places.Place) -> None:
    """By status, lane, case, name and bin; none of them shows what others own."""
    person, factory = await place.person(), place.functions.factory
    other = await factory.case(person.id)
    queued = str(await factory.queued(person.case, lane="pdf"))
    done = str(await factory.completed(other))
    named = str(await factory.queued(other, p_document_name="Grundbuch.png"))
    await factory.queued()
    async with place.visitor(person) as client:
        await client.post(f"/documents/{named}/cancel", data={"csrf": await csrf(client)})
        chosen = {
            "": {queued, done, named},
            "status=completed": {done},
            "status=queued": {queued},
            "lane=pdf": {queued},
            f"case={other}": {done, named},
            "q=grundBUCH": {named},
            "status=cancelled&lane=pdf": set(),
            "bin=true": set(),
        }
        shown = {query: set(_listed(await client.get(f"/documents?{query}"))) for query in chosen}
    assert shown == chosen


async def test_senseless_filters_are_refused_as_pages(place: places.Place) -> None:
    """No address makes the server fail."""
    person = await place.person()
    async with place.visitor(person) as client:
        for query in ("case=nope", "before=nope", "before_id=x", "offset=-1", "offset=x", "q=%00"):
            answer = await client.get(f"/documents?{query}")
            assert answer.status_code in {200, 400, 404}, query
            assert "<h1>" in answer.text
