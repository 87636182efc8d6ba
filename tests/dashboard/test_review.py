"""Review: pages that wait for a person are corrected and approved, and nothing typed is lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard import browsing, scans

if TYPE_CHECKING:
    import uuid

    from playwright.async_api import Page

    from tests.dashboard import site as sites

Line = scans.Line

LETTER = (
    Line("Dear Ms Mueller,"),
    Line("we write to yon", 0.7, 1),
    Line("oncc again.", 0.4, 1),
)
TEXT = "Dear Ms Mueller,\n\nwe write to yon\noncc again."


async def _rows(site: sites.Site, document: uuid.UUID) -> list[Any]:
    return await site.functions.used.database.select(
        tables.page_texts,
        columns="page_number,text,version,approved,lines",
        where={"document_id": str(document)},
        order="page_number",
    )


async def _open(page: Page, document: uuid.UUID, number: int = 1, more: str = "") -> None:
    await page.goto(f"/documents/{document}/review?page={number}{more}")
    await expect(page.locator("#review")).to_be_visible()


def _line(page: Page, number: int) -> Any:  # a locator
    return page.locator("#lines textarea").nth(number - 1)


async def test_lines_and_boxes_highlight_each_other(site: sites.Site) -> None:
    """A click on the picture moves the cursor to the text."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        await _open(page, document)
        boxes = page.locator("#boxes polygon")
        assert [await boxes.nth(n).get_attribute("class") for n in range(3)] == [
            "sure",
            "unsure current",
            "doubtful",
        ]
        await expect(_line(page, 2)).to_be_focused()
        await site.wait_until(page, "document.getElementById('picture').naturalWidth > 500")
        await page.locator("#lines li").nth(2).hover()
        await expect(boxes.nth(2)).to_have_class(re.compile("highlighted"))
        await boxes.nth(0).hover()
        await expect(page.locator("#lines li").first).to_have_class(re.compile("highlighted"))
        await expect(boxes.nth(2)).not_to_have_class(re.compile("highlighted"))
        place_of_line = await boxes.nth(0).bounding_box()
        assert place_of_line is not None
        middle = place_of_line["y"] + place_of_line["height"] / 2
        await page.mouse.click(place_of_line["x"] + place_of_line["width"] / 2, middle)
        await expect(_line(page, 1)).to_be_focused()
        at = await _line(page, 1).evaluate("(field) => field.selectionStart")
        assert abs(at - len(LETTER[0].text) / 2) <= 1
        await page.keyboard.press("F8")
        await expect(_line(page, 2)).to_be_focused()
        await page.keyboard.press("F8")
        await expect(_line(page, 3)).to_be_focused()
        await page.keyboard.press("Shift+F8")
        await expect(_line(page, 2)).to_be_focused()


async def test_the_picture_is_zoomed_rotated_and_panned(site: sites.Site) -> None:
    """With buttons, keys and the mouse."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER, rotation=90)
    async with site.browser(person) as page:
        await _open(page, document)
        await site.wait_until(page, "document.getElementById('picture').naturalWidth > 500")
        layer, view = page.locator("#layer"), page.locator("#view")

        async def width() -> float:
            found: float = await layer.evaluate("(layer) => layer.offsetWidth")
            return round(found)

        async def scrolled() -> list[float]:
            found: list[float] = await view.evaluate("(v) => [v.scrollLeft, v.scrollTop]")
            return found

        await expect(layer).to_have_attribute("style", re.compile(r"rotate\(90deg\)"))
        fitted = await width()
        await page.keyboard.press("Alt+Equal")
        await page.get_by_role("button", name="Zoom in").click()
        assert abs(await width() - fitted * 1.25**2) < 4
        before = await scrolled()
        box = await view.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 200, box["y"] + 200)
        await page.mouse.down()
        await page.mouse.move(box["x"] + 150, box["y"] + 160, steps=3)
        await page.mouse.up()
        after = await scrolled()
        assert (after[0] - before[0], after[1] - before[1]) == (50, 40)
        await page.keyboard.press("F6")
        await expect(_line(page, 2)).to_be_focused()
        await page.keyboard.press("F6")
        await expect(view).to_be_focused()
        await page.keyboard.press("ArrowUp")
        await site.wait_until(page, f"document.getElementById('view').scrollTop < {after[1]}")
        await page.keyboard.press("Alt+Minus")
        await page.get_by_role("button", name="Zoom out").click()
        await page.keyboard.press("Alt+Digit0")
        assert abs(await width() - fitted) < 4
        await page.keyboard.press("Alt+KeyR")
        await page.get_by_role("button", name="Rotate").click()
        await expect(layer).to_have_attribute("style", re.compile(r"rotate\(270deg\)"))


async def test_ten_pages_are_reviewed_with_the_keyboard(site: sites.Site) -> None:
    """Find the unsure line, correct it, approve, and go to the next page."""
    person = await site.add_person()
    pages = [(Line(f"Page number {n} is"), Line("full of rosse.", 0.5)) for n in range(1, 11)]
    document = await scans.upload_scan(site, person, *pages)
    async with site.browser(person) as page:
        keys = page.keyboard
        await page.goto("/review")
        for _ in range(30):
            if await page.evaluate("document.activeElement.textContent") == "letter.pdf":
                break
            await keys.press("Tab")
        await keys.press("Enter")
        for number in range(1, 11):
            await expect(page.locator("h1")).to_have_text(f"Page {number} of 10")
            await expect(_line(page, 2)).to_be_focused()
            await keys.press("End")
            for _ in range(3):
                await keys.press("Backspace")
            await keys.type("es.")
            await keys.press("Control+Shift+Enter")
        await expect(page.locator("#notice")).to_contain_text(
            "Page 10 was approved. No pages are left to review."
        )
    rows = await _rows(site, document)
    assert [row["text"] for row in rows] == [
        f"Page number {n} is\nfull of roses." for n in range(1, 11)
    ]
    assert all(row["approved"] for row in rows)


async def test_keyboard_shortcuts(site: sites.Site) -> None:
    """For lines, pages and the help."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER, LETTER)
    async with site.browser(person) as page:
        keys = page.keyboard
        await _open(page, document)
        await keys.press("Enter")
        await expect(_line(page, 3)).to_be_focused()
        await keys.press("ArrowUp")
        await keys.press("Shift+Enter")
        await expect(_line(page, 1)).to_be_focused()
        await keys.press("ArrowDown")
        await expect(_line(page, 2)).to_be_focused()
        await keys.type("?")
        await expect(_line(page, 2)).to_have_value(re.compile(r"\?"))
        await keys.press("F1")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await keys.press("Escape")
        await expect(page.get_by_role("dialog")).not_to_be_visible()
        await keys.press("F6")
        await keys.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await keys.press("Escape")
        await keys.press("Alt+PageDown")
        await expect(page.locator("h1")).to_have_text("Page 2 of 2")
        await expect(_line(page, 2)).to_be_focused()
        await keys.press("Alt+PageUp")
        await expect(page.locator("h1")).to_have_text("Page 1 of 2")


async def test_edits_are_undone_and_redone(site: sites.Site) -> None:
    """Across lines, with keys and the button."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        keys = page.keyboard
        await _open(page, document)
        await keys.press("End")
        await keys.type("!")
        await keys.press("Enter")
        await keys.press("End")
        await keys.press("Backspace")
        await expect(_line(page, 3)).to_have_value("oncc again")
        await keys.press("Control+z")
        await expect(_line(page, 3)).to_have_value("oncc again.")
        await keys.press("Control+z")
        await expect(_line(page, 2)).to_have_value("we write to yon")
        await expect(_line(page, 2)).to_be_focused()
        await keys.press("Control+Shift+z")
        await expect(_line(page, 2)).to_have_value("we write to yon!")
        await page.get_by_role("button", name="Undo").click()
        await expect(_line(page, 2)).to_have_value("we write to yon")


async def test_versions_are_shown_and_restored(site: sites.Site) -> None:
    """With author and time; approving an unchanged page creates a version too."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        keys = page.keyboard
        await _open(page, document)
        await _line(page, 2).fill("we write to you")
        await keys.press("Control+s")
        await expect(page.locator("#notice")).to_have_text("Saved as version 1.")
        await expect(page.locator(".state")).to_contain_text(f"Version 1 by {person.email}")
        # A person is sure, so the one line is left.
        await expect(_line(page, 3)).to_be_focused()
        await keys.press("Control+s")
        await expect(page.locator("#notice")).to_have_text("No changes to save.")
        await page.get_by_role("button", name="Approve", exact=True).click()
        await expect(page.locator("#notice")).to_have_text("Page 1 was approved.")
        await expect(page.locator(".state")).to_contain_text("✓ approved")
        await page.locator(".versions summary").click()
        await expect(page.locator(".versions li")).to_have_text(
            [
                re.compile(f"^Version 2 by {person.email}, .* UTC, approved$"),
                re.compile(f"^Version 1 by {person.email}, .* UTC$"),
                re.compile("^Recognised text by rapid 1$"),
            ]
        )
        await page.get_by_role("link", name="Recognised text").click()
        await expect(_line(page, 2)).to_have_value("we write to yon")
        await expect(_line(page, 2)).to_have_attribute("readonly", "")
        await page.get_by_role("button", name="Restore this version").click()
        await expect(page.locator("#notice")).to_contain_text("The recognised text was restored.")
        await expect(_line(page, 2)).to_have_value("we write to yon")
    (row,) = await _rows(site, document)
    assert (row["text"], row["version"], row["approved"]) == (TEXT, 3, False)
    assert [line["confidence"] for line in row["lines"]] == [0.98, 0.7, 0.4]


async def test_lines_are_added_and_removed_in_plain_text(site: sites.Site) -> None:
    """Other lines keep their positions; the mode can be switched if the number is unchanged."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        keys, whole = page.keyboard, page.locator("#plain-text")
        await _open(page, document)
        await _line(page, 2).fill("we write to you")
        await keys.press("Alt+KeyT")
        await expect(whole).to_have_value("Dear Ms Mueller,\n\nwe write to you\noncc again.")
        await whole.fill("Dear Ms Mueller,\n\nwe write to you\nonce again.")
        await keys.press("Alt+KeyT")
        await expect(_line(page, 3)).to_have_value("once again.")
        await page.get_by_role("button", name="Plain text").click()
        await whole.fill("Dear Ms Mueller,\n\nonce again.\n\nYours,\nA.")
        await keys.press("Alt+KeyT")
        await expect(page.locator("#message")).to_contain_text("number of lines has changed")
        await keys.press("Control+s")
        await expect(page.locator("#lines li")).to_have_count(4)
    (row,) = await _rows(site, document)
    assert row["text"] == "Dear Ms Mueller,\n\nonce again.\n\nYours,\nA."
    assert [line["text"] for line in row["lines"]] == [
        "Dear Ms Mueller,",
        "once again.",
        "Yours,",
        "A.",
    ]


async def test_approve_and_next_goes_through_the_queue(site: sites.Site) -> None:
    """First within the document, then to the next; sure pages are skipped."""
    person = await site.add_person()
    sure, unsure = (Line("all is well"),), (Line("all is we11", 0.3),)
    await scans.upload_scan(site, person, sure, unsure, sure, unsure, name="one.pdf")
    await scans.upload_scan(site, person, (Line("other", 0.1),), name="two.pdf")
    async with site.browser(person) as page:
        await page.goto("/review")
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator("tbody tr").first).to_contain_text("one.pdf")
        await page.get_by_role("combobox", name="Case").select_option(str(person.case))
        await expect(page).to_have_url(re.compile("case="))
        await page.get_by_role("link", name="one.pdf").click()
        for heading in ("Page 2 of 4", "Page 4 of 4", "Page 1 of 1"):
            await expect(page.locator("h1")).to_have_text(heading)
            await page.get_by_role("button", name="Approve and next").click()
        await expect(page.locator("#results")).to_have_text(re.compile("No pages to review"))


async def test_corrections_are_shown_and_exported(site: sites.Site) -> None:
    """On the page of the document, and in downloads from the review."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        await page.goto(f"/documents/{document}")
        await page.get_by_role("link", name="Review", exact=True).last.click()
        await _line(page, 2).fill("we write to you")
        await page.get_by_role("button", name="Approve and next").click()
        await expect(page.locator("#notice")).to_contain_text("That was the last page.")
        await expect(page.locator("pre")).to_contain_text("we write to you")
        await _open(page, document)
        for form in ("TXT", "JSON", "PDF", "HOCR", "ALTO", "PAGE"):
            async with page.expect_download() as found:
                await page.get_by_role("link", name=form, exact=True).click()
            saved = await browsing.read_download(await found.value)
            # This PDF shows its letters itself, so in it both are found.
            assert form == "PDF" or (b"you" in saved and b"yon" not in saved), form


async def test_viewers_cannot_edit(site: sites.Site) -> None:
    """They see picture and text, but no buttons to change them."""
    owner, viewer = await site.add_person(), await site.add_person()
    document = await scans.upload_scan(site, owner, LETTER)
    await site.functions.factory.call(
        "share_case", p_case_id=owner.case, p_user_id=viewer.id, p_role="viewer"
    )
    async with site.browser(viewer) as page:
        await _open(page, document)
        await expect(_line(page, 1)).to_have_attribute("readonly", "")
        await expect(page.get_by_role("button", name="Save")).to_have_count(0)
        await page.keyboard.press("Control+s")
        await page.keyboard.press("F8")
        await expect(_line(page, 2)).to_be_focused()
    assert (await _rows(site, document))[0]["version"] == 0
