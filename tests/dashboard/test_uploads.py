"""Uploads: files dropped on the list become documents, and are followed to their text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard.test_doors import csrf

if TYPE_CHECKING:
    from pathlib import Path

    from playwright import async_api as playwright

    from tests.dashboard import place as places

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


async def test_chosen_files_are_followed_to_their_text(place: places.Place, tmp_path: Path) -> None:
    """Each is a row that changes by itself; the case and the wishes are those of the form."""
    person = await place.person()
    async with place.browser(person) as page:
        await page.goto(f"/documents?case={person.case}")
        await page.get_by_text("How to read them").click()
        await page.locator("#upload-wishes [name=language]").fill("deu")
        await _choose(page, tmp_path, one=PNG, two=PNG + b"2")
        rows = page.locator("#uploads li")
        await expect(rows).to_have_count(2)
        await expect(rows.locator(".queued")).to_have_count(2)
        await place.functions.read()
        await expect(rows.locator(".completed")).to_have_count(2)
        await expect(rows.first).to_contain_text("1 page")
        await rows.first.get_by_role("link").click()
        await expect(page.locator("pre")).to_have_text("text")
    seen = await place.functions.used.database.select(tables.documents)
    assert {(x["language"], x["case_id"]) for x in seen} == {("deu", str(person.case))}


async def test_dropped_files_go_to_the_inbox_and_say_what_they_are(place: places.Place) -> None:
    """What is there already, what is a new version, what nobody knows, what is refused and why."""
    person = await place.person()
    async with place.browser(person) as page:
        await page.goto("/")
        png = "\u0089PNG"
        await page.evaluate(DROP, [["notes.xyz", "?"], ["empty.png", ""], ["tool", "MZ" + png]])
        rows = page.locator("#uploads li")
        await expect(rows.filter(has_text="notes.xyz")).to_contain_text("HAC decides")
        await expect(rows.filter(has_text="empty.png")).to_contain_text("empty")
        await expect(rows.filter(has_text="tool")).to_contain_text("is a program")
        await expect(page.locator("#upload-state")).to_have_text("All uploaded")
        await page.evaluate(DROP, [["notes.xyz", "?"]])
        await expect(rows.last).to_contain_text("is there already")
        await page.evaluate(DROP, [["notes.xyz", "other"]])
        await expect(rows.last).to_contain_text("version 2")
        await rows.last.get_by_role("link").click()
        await page.get_by_text("2 versions").click()
        await page.get_by_role("link", name="Version 1").click()
        await expect(page.locator(".facts div").first).to_contain_text("in the bin")
        place.problems.clear()  # the browser tells of what was refused


async def test_an_upload_that_failed_is_tried_again(place: places.Place, tmp_path: Path) -> None:
    """One click is enough, and the name is never markup."""
    person = await place.person()
    name = "<img src=x onerror=alert(1)>.png"
    async with place.browser(person) as page:
        await page.goto("/")
        await page.route("**/documents?*", lambda route: route.abort(), times=1)
        await _choose(page, tmp_path, **{name: PNG})
        row = page.locator("#uploads li")
        await expect(row).to_contain_text("The connection broke.")
        await row.get_by_role("button", name="Try again").click()
        await expect(row.locator(".queued")).to_be_visible()
        await expect(row.get_by_role("link")).to_have_text(re.compile("img src=x"))
        assert await page.locator("#uploads img").count() == 0
        place.problems.clear()  # the browser tells of the broken connection


async def test_a_file_of_another_site_is_not_taken_in(place: places.Place) -> None:
    """Without the token of the session in the header, and into a case of others: nothing."""
    person, other = await place.person(), await place.person()
    async with place.visitor(person) as client:
        headers = {"X-File-Name": "a.png", "Accept": "application/json"}
        answer = await client.post("/documents", content=PNG, headers=headers)
        assert answer.status_code == 403
        headers["X-CSRF-Token"] = await csrf(client)
        answer = await client.post(f"/documents?case_id={other.case}", content=PNG, headers=headers)
        assert (answer.status_code, "no such case" in answer.json()["message"]) == (404, True)
        client.cookies.clear()
        answer = await client.post("/documents", content=PNG, headers=headers)
        assert (answer.status_code, "sign in" in answer.json()["message"]) == (401, True)
    assert await place.functions.used.database.select(tables.documents) == []
