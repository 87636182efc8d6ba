"""Documents: found, opened, acted upon."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.dashboard.pages import documents
from pagewarden.database import tables
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    import httpx
    import pytest

    from tests.dashboard import site as sites


def _listed(answer: httpx.Response) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/documents/([0-9a-f-]+)"', answer.text)


async def test_a_document_is_found_by_its_text(site: sites.Site) -> None:
    """The search runs while typing; matches are marked, and link to the page."""
    person = await site.add_person()
    await site.functions.factory.completed(person.case, text="the treaty of Westphalia")
    await site.functions.factory.completed(person.case, text="something else")
    async with site.browser(person) as page:
        await page.goto("/")
        await page.get_by_role("searchbox").fill("treaty")
        await expect(page.locator(".hits mark")).to_have_text("treaty")
        await expect(page).to_have_url(re.compile("q=treaty"))
        await page.locator(".hits a").first.click()
        await expect(page.locator("pre")).to_have_text("the treaty of Westphalia")


async def test_each_action_has_its_button(site: sites.Site) -> None:
    """Read again with other options, cancel, delete, restore and erase."""
    person = await site.add_person()
    document = await site.functions.factory.completed(person.case)
    async with site.browser(person) as page:
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
        (seen,) = await site.functions.used.database.select(tables.documents)
        assert (seen["engine"], seen["language"]) == ("tesseract", "ita")
        await page.get_by_role("button", name="Erase").click()
        await expect(page.locator("#notice")).to_contain_text("The document was erased")
        await expect(page).to_have_url(re.compile("/documents$"))
    assert await site.functions.used.database.select(tables.documents) == []


async def test_earlier_reading_runs_are_shown(site: sites.Site) -> None:
    """Their text is kept when the document is read again."""
    person, factory = await site.add_person(), site.functions.factory
    document = await factory.completed(person.case, text="read first")
    async with site.browser(person) as page:
        await page.goto(f"/documents/{document}")
        await page.get_by_text("Read again").first.click()
        await page.get_by_role("button", name="Read again").click()
        await site.functions.read()
        await expect(page.locator("pre")).to_have_text("text")
        await page.get_by_text("2 reading runs").click()
        await page.locator(".versions a").click()
        await expect(page.locator("pre")).to_have_text("read first")


async def test_a_document_completes_while_its_page_is_open(site: sites.Site) -> None:
    """The page is updated with text and downloads."""
    person = await site.add_person()
    uploaded = await site.functions.upload(person.id, b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    async with site.browser(person) as page:
        await page.goto(f"/documents/{uploaded.json()['document_id']}")
        await expect(page.locator(".facts .status")).to_have_text("queued")
        await site.functions.read()
        await expect(page.locator(".facts .status")).to_have_text("completed")
        await expect(page.locator("pre")).to_have_text("text")
        async with page.expect_download() as found:
            await page.get_by_role("link", name="TXT").click()
        assert (await found.value).suggested_filename == "scan.txt"


async def test_the_list_of_documents_is_paged(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each document is on one page, newest first."""
    monkeypatch.setattr(documents, "ROWS", 2)
    person = await site.add_person()
    created = [str(await site.functions.factory.queued(person.case)) for _ in range(5)]
    seen: list[str] = []
    async with site.client(person) as client:
        path: str | None = "/documents"
        while path:
            answer = await client.get(path)
            seen += _listed(answer)
            found = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = found[1].replace("&amp;", "&") if found else None
    assert seen == created[::-1]


async def test_documents_are_filtered(site: sites.Site) -> None:
    """By status, lane, case, name and bin; never those of other users."""
    person, factory = await site.add_person(), site.functions.factory
    other = await factory.case(person.id)
    queued = str(await factory.queued(person.case, lane="pdf"))
    done = str(await factory.completed(other))
    named = str(await factory.queued(other, p_document_name="Grundbuch.png"))
    await factory.queued()
    async with site.client(person) as client:
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


async def test_invalid_filters_lead_to_error_pages(site: sites.Site) -> None:
    """No URL makes the server fail."""
    person = await site.add_person()
    async with site.client(person) as client:
        for query in ("case=nope", "before=nope", "before_id=x", "offset=-1", "offset=x", "q=%00"):
            answer = await client.get(f"/documents?{query}")
            assert answer.status_code in {200, 400, 404}, query
            assert "<h1>" in answer.text
