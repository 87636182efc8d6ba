"""Uploads: files dropped on the list become documents, and are followed to their text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    from pathlib import Path

    from playwright import async_api as playwright

    from tests.dashboard import site as sites

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100

DROP = """(files) => {
  const carried = new DataTransfer();
  for (const [name, text] of files) carried.items.add(new File([text], name));
  document.dispatchEvent(new DragEvent("drop", {dataTransfer: carried, bubbles: true}));
}"""


async def _choose(page: playwright.Page, folder: Path, **files: bytes) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    await page.set_input_files("#upload-files", [folder / name for name in files])


async def test_selected_files_show_their_progress(site: sites.Site, tmp_path: Path) -> None:
    """With the case and reading options of the form."""
    person = await site.add_person()
    async with site.browser(person) as page:
        await page.goto(f"/documents?case={person.case}")
        await page.get_by_text("OCR options").click()
        await page.locator("#upload-options [name=language]").fill("deu")
        await _choose(page, tmp_path, one=PNG, two=PNG + b"2")
        rows = page.locator("#uploads li")
        await expect(rows).to_have_count(2)
        await expect(rows.locator(".queued")).to_have_count(2)
        await site.functions.read()
        await expect(rows.locator(".completed")).to_have_count(2)
        await expect(rows.first).to_contain_text("1 page")
        await rows.first.get_by_role("link").click()
        await expect(page.locator("pre")).to_have_text("text")
    seen = await site.functions.used.database.select(tables.documents)
    assert {(x["language"], x["case_id"]) for x in seen} == {("deu", str(person.case))}


async def test_dropped_files_go_to_the_inbox(site: sites.Site) -> None:
    """Duplicates, new versions, unknown types and rejected files are marked."""
    person = await site.add_person()
    async with site.browser(person) as page:
        await page.goto("/")
        png = "\u0089PNG"
        await page.evaluate(DROP, [["notes.xyz", "?"], ["empty.png", ""], ["tool", "MZ" + png]])
        rows = page.locator("#uploads li")
        await expect(rows.filter(has_text="notes.xyz")).to_contain_text("awaiting routing by HAC")
        await expect(rows.filter(has_text="empty.png")).to_contain_text("empty")
        await expect(rows.filter(has_text="tool")).to_contain_text("is an executable file")
        await expect(page.locator("#upload-state")).to_have_text("All files uploaded")
        await page.evaluate(DROP, [["notes.xyz", "?"]])
        await expect(rows.last).to_contain_text("already uploaded")
        await page.evaluate(DROP, [["notes.xyz", "other"]])
        await expect(rows.last).to_contain_text("version 2")
        await rows.last.get_by_role("link").click()
        await page.get_by_text("2 versions").click()
        await page.get_by_role("link", name="Version 1").click()
        await expect(page.locator(".facts div").first).to_contain_text("in the bin")
        site.problems.clear()  # the browser tells of what was refused


async def test_large_files_are_sent_to_an_address(site: sites.Site, tmp_path: Path) -> None:
    """In two steps, which look like one; a file that arrives changed is rejected."""
    person = await site.add_person()
    large = PNG + bytes(range(256)) * 10_000  # more than one piece of the hash
    async with site.browser(person) as page:
        await page.goto(f"/documents?case={person.case}")
        await page.evaluate("document.getElementById('upload').dataset.maxDirect = 1000")
        await _choose(page, tmp_path, small=PNG, large=large)
        rows = page.locator("#uploads li")
        await expect(rows.locator(".queued")).to_have_count(2)
        await expect(rows.filter(has_text="large").get_by_role("link")).to_be_visible()
        stored = {path.read_bytes() for path in site.functions.stored()}
        assert stored == {PNG, large}
        await page.evaluate("hashFile = async () => '0'.repeat(64)")
        await _choose(page, tmp_path, changed=large)
        await expect(rows.last).to_contain_text("the file is not the announced one")
        site.problems.clear()  # the browser tells of what was refused
    assert len(site.functions.stored()) == 2
    found = await site.functions.used.database.select(tables.documents)
    assert {row["case_id"] for row in found} == {str(person.case)}


async def test_failed_uploads_are_retried(site: sites.Site, tmp_path: Path) -> None:
    """With one click; markup in names is escaped."""
    person = await site.add_person()
    name = "<img src=x onerror=alert(1)>.png"
    async with site.browser(person) as page:
        await page.goto("/")
        await page.route("**/documents?*", lambda route: route.abort(), times=1)
        await _choose(page, tmp_path, **{name: PNG})
        row = page.locator("#uploads li")
        await expect(row).to_contain_text("The connection was interrupted.")
        await row.get_by_role("button", name="Try again").click()
        await expect(row.locator(".queued")).to_be_visible()
        await expect(row.get_by_role("link")).to_have_text(re.compile("img src=x"))
        assert await page.locator("#uploads img").count() == 0
        site.problems.clear()  # the browser tells of the broken connection


async def test_uploads_from_other_sites_are_rejected(site: sites.Site) -> None:
    """So are uploads without the token header, or into cases of other users."""
    person, other = await site.add_person(), await site.add_person()
    async with site.client(person) as client:
        headers = {"X-File-Name": "a.png", "Accept": "application/json"}
        answer = await client.post("/documents", content=PNG, headers=headers)
        assert answer.status_code == 403
        headers["X-CSRF-Token"] = await csrf(client)
        wanted = {"name": "a.png", "size": len(PNG), "sha256": "0" * 64, "case_id": str(other.case)}
        answer = await client.post("/documents/uploads", json=wanted, headers=headers)
        assert (answer.status_code, "no such case" in answer.json()["message"]) == (404, True)
        no_token = headers | {"X-CSRF-Token": ""}
        answer = await client.post("/documents/uploads", json=wanted, headers=no_token)
        assert answer.status_code == 403
        answer = await client.post(f"/documents?case_id={other.case}", content=PNG, headers=headers)
        assert (answer.status_code, "no such case" in answer.json()["message"]) == (404, True)
        client.cookies.clear()
        answer = await client.post("/documents", content=PNG, headers=headers)
        assert (answer.status_code, "sign in" in answer.json()["message"]) == (401, True)
    assert await site.functions.used.database.select(tables.documents) == []
