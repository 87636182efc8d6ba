"""Review when things go wrong: others were quicker, sessions end, files break, texts are odd."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from pagewarden.database import tables
from tests.dashboard import scans
from tests.dashboard import site as sites
from tests.dashboard.test_login import csrf
from tests.functions import house

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from playwright.async_api import Page

Line = scans.Line

LETTER = (Line("Dear Ms Mueller,"), Line("we write to yon", 0.7, 1))
EVIL = '<script>document.title="ran"</script><img src=x onerror="document.title=\'ran\'">'
ARABIC = "بسم الله الرحمن الرحيم"
TIBETAN = "བཀྲ་ཤིས་བདེ་ལེགས། ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྃ།"


async def _text(site: sites.Site, document: uuid.UUID) -> tuple[str, int]:
    (row,) = await site.functions.used.database.select(
        tables.page_texts,
        columns="text,version",
        where={"document_id": str(document), "page_number": 1},
    )
    return row["text"], row["version"]


async def _open(page: Page, document: uuid.UUID) -> None:
    await page.goto(f"/documents/{document}/review")
    await expect(page.locator("#review")).to_be_visible()


async def test_concurrent_edits_lose_nothing(site: sites.Site) -> None:
    """The second user sees both texts, and can save or discard their own."""
    owner, editor = await site.add_person(), await site.add_person()
    document = await scans.upload_scan(site, owner, LETTER)
    await site.functions.factory.call(
        "share_case", p_case_id=owner.case, p_user_id=editor.id, p_role="editor"
    )
    async with site.browser(owner) as page, site.browser(editor) as other:
        for browser in (page, other):
            await _open(browser, document)
        await other.locator("#lines textarea").nth(1).fill("we write to you")
        await other.keyboard.press("Control+s")
        await expect(other.locator("#notice")).to_have_text("Saved as version 1.")
        await page.locator("#lines textarea").nth(1).fill("we wrote to yon")
        await page.keyboard.press("Control+Enter")
        conflict = page.locator(".conflict")
        await expect(conflict).to_contain_text("this page was changed in the meantime")
        await expect(conflict).to_contain_text(f"version 1 by {editor.email}")
        await expect(conflict.locator("td")).to_have_text(["we wrote to yon", "we write to you"])
        await expect(page.locator("#lines textarea").nth(1)).to_have_value("we wrote to yon")
        assert (await _text(site, document))[1] == 1
        await page.get_by_role("link", name="discard your changes").click()
        await expect(page.locator("#lines textarea").nth(1)).to_have_value("we write to you")
        await page.get_by_role("button", name="Restore").click()
        await expect(page.locator("#lines textarea").nth(1)).to_have_value("we wrote to yon")
        await page.keyboard.press("Control+s")
        await expect(page.locator("#notice")).to_have_text("Saved as version 2.")
        await expect(page.locator("#draft")).to_be_hidden()
        site.problems.clear()  # the browser tells of the refusal
    assert await _text(site, document) == ("Dear Ms Mueller,\n\nwe wrote to yon", 2)


async def test_edits_survive_the_end_of_the_session(site: sites.Site) -> None:
    """After signing in, the draft is offered on the same page."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        await _open(page, document)
        await page.locator("#lines textarea").nth(1).fill("we write to you")
        site.clock.ahead = dt.timedelta(days=90)
        await page.context.clear_cookies(name="pagewarden-access")
        await page.keyboard.press("Control+s")
        await expect(page).to_have_url(re.compile("/sign-in"))
        site.clock.ahead = dt.timedelta(0)
        await page.get_by_label("E-mail").fill(person.email)
        await page.get_by_label("Password").fill(sites.PASSWORD)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page).to_have_url(re.compile(f"/documents/{document}/review"))
        second = page.locator("#lines textarea").nth(1)
        await expect(second).to_have_value("we write to yon")
        await expect(page.locator("#draft")).to_contain_text("You have unsaved text")
        await page.get_by_role("button", name="Restore").click()
        await expect(second).to_have_value("we write to you")
        await page.keyboard.press("Control+s")
        await expect(page.locator("#notice")).to_have_text("Saved as version 1.")
        await expect(page.locator("#draft")).to_be_hidden()
        await site.wait_until(page, "localStorage.length === 0")
    assert await _text(site, document) == ("Dear Ms Mueller,\n\nwe write to you", 1)


async def test_drafts_are_restored_or_discarded(site: sites.Site) -> None:
    """Also after leaving the page; discarded drafts do not return."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    async with site.browser(person) as page:
        await _open(page, document)
        await page.locator("#lines textarea").first.fill("Dear Ms Müller,")
        await page.goto("/documents")
        await _open(page, document)
        await expect(page.locator("#draft")).to_be_visible()
        await page.get_by_role("button", name="Discard").click()
        await expect(page.locator("#draft")).to_be_hidden()
        await _open(page, document)
        await expect(page.locator("#lines textarea").first).to_have_value("Dear Ms Mueller,")
        await expect(page.locator("#draft")).to_be_hidden()


async def test_a_page_of_a_million_characters_stays_usable(site: sites.Site) -> None:
    """It is edited as plain text, kept as a draft, saved completely and approved."""
    person = await site.add_person()
    lines = [Line(f"{number:05} " + "x" * 93) for number in range(10_000)]
    document = await scans.upload_scan(site, person, lines, content=house.READABLE_PDF)
    async with site.browser(person) as page:
        await _open(page, document)
        whole = page.locator("#plain-text")
        await expect(whole).to_be_focused()
        await page.keyboard.type("Title ")
        await site.wait_until(page, "localStorage.length === 1")
        await page.keyboard.press("Control+s")
        await expect(page.locator("#notice")).to_have_text("Saved as version 1.")
        await expect(page.locator("#draft")).to_be_hidden()
        await page.keyboard.press("Control+Enter")
        await expect(page.locator("#notice")).to_have_text("Page 1 was approved.")
    text, version = await _text(site, document)
    assert (len(text), version) == (10_000 * 100 - 1 + 6, 2)
    assert text.startswith("Title 00000 xx")
    assert text.endswith("x" * 93)
    (row,) = await site.functions.used.database.select(tables.page_texts, columns="lines")
    assert len(row["lines"]) == 10_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (house.PDF, "scan.pdf"),
        (None, "there is no file"),
    ],
    ids=["broken", "missing"],
)
async def test_text_can_be_edited_without_a_picture(
    site: sites.Site, content: bytes | None, reason: str
) -> None:
    """The reason is shown instead of the picture."""
    person = await site.add_person()
    document = await scans.upload_scan(
        site, person, LETTER, content=content or house.READABLE_PDF, name="scan.pdf"
    )
    if content is None:
        for file in site.functions.stored():
            file.unlink()
    async with site.browser(person) as page:
        await _open(page, document)
        problem = page.locator("#picture-problem")
        await expect(problem).to_contain_text("The picture cannot be shown: ")
        await expect(problem).to_contain_text(reason)
        await page.locator("#lines textarea").nth(1).fill("we write to you")
        await page.keyboard.press("Control+s")
        await expect(page.locator("#notice")).to_have_text("Saved as version 1.")
        await page.goto("/documents")
        site.problems.clear()  # the browser tells of the picture


async def test_all_writing_systems_are_supported(site: sites.Site) -> None:
    """Right-to-left text has its direction, and no character is lost."""
    person = await site.add_person()
    lines = (Line(ARABIC, 0.5), Line(TIBETAN, 0.5), Line("אהבה and peace", 0.5))
    document = await scans.upload_scan(site, person, lines, content=house.READABLE_PDF)
    async with site.browser(person) as page:
        await _open(page, document)
        fields = page.locator("#lines textarea")
        directions = [
            await fields.nth(n).evaluate("(field) => getComputedStyle(field).direction")
            for n in range(3)
        ]
        assert directions == ["rtl", "ltr", "rtl"]
        box = await page.locator("#boxes polygon").first.bounding_box()
        assert box is not None
        await page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
        at = await fields.first.evaluate("(field) => field.selectionStart")
        assert at >= len(ARABIC) - 2  # the left end is where such a line ends
        await page.keyboard.press("End")
        await page.keyboard.type("!")
        await fields.nth(1).fill(f"{TIBETAN}ཀ")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator("#notice")).to_have_text("Page 1 was approved.")
    assert (await _text(site, document))[0] == f"{ARABIC}!\n{TIBETAN}ཀ\nאהבה and peace"


async def test_markup_in_the_review_is_escaped(site: sites.Site) -> None:
    """In lines, plain text, versions, conflicts and drafts."""
    person = await site.add_person()
    document = await scans.upload_scan(
        site, person, (Line(EVIL, 0.2), Line("</textarea>" + EVIL)), content=house.READABLE_PDF
    )
    await site.functions.factory.conn.execute(
        "update public.documents set name = %s where id = %s", (EVIL, document)
    )
    async with site.browser(person) as page:

        async def is_harmless() -> None:
            await expect(page.locator("#review")).to_be_visible()
            assert await page.title() != "ran"
            assert await page.locator("main script, main img:not(#picture)").count() == 0

        await page.goto("/review")
        assert await page.get_by_text("onerror").count() > 0
        await _open(page, document)
        await is_harmless()
        await expect(page.locator("#lines textarea").first).to_have_value(EVIL)
        await page.locator("#lines textarea").first.fill(f"1 {EVIL}")
        await page.keyboard.press("Alt+KeyT")
        await page.goto("/documents")
        await _open(page, document)
        await page.get_by_role("button", name="Restore").click()
        await is_harmless()
        await site.functions.factory.call(
            "correct_page",
            p_document_id=document,
            p_page_number=1,
            p_base_version=0,
            p_text=f"2 {EVIL}",
        )
        await page.keyboard.press("Control+s")
        await expect(page.locator(".conflict")).to_be_visible()
        await is_harmless()
        await page.goto(f"/documents/{document}/review?version=0")
        await is_harmless()
        site.problems.clear()  # the browser tells of the refusal


async def test_other_users_cannot_open_the_review(site: sites.Site) -> None:
    """Nor change it; links of owners expire."""
    owner, stranger = await site.add_person(), await site.add_person()
    document = await scans.upload_scan(site, owner, LETTER)
    paths = [
        f"/documents/{document}",
        f"/documents/{document}/review",
        f"/documents/{document}/pages/1/picture",
        f"/documents/{document}/file",
    ]
    form = {"page": "1", "base": "0", "act": "save", "text": "mine"}
    async with site.client(stranger) as client:
        answers = [await client.get(path) for path in paths]
        form["csrf"] = await csrf(client)
        answers.append(await client.post(f"/documents/{document}/review", data=form))
        back = {"page": "1", "base": "0", "version": "0", "csrf": form["csrf"]}
        answers.append(await client.post(f"/documents/{document}/review/back", data=back))
        listed = await client.get("/review")
    assert [answer.status_code for answer in answers] == [404] * 6
    assert "letter.pdf" not in listed.text
    async with site.client(owner) as client:
        links = [(await client.get(path)).headers["location"] for path in paths[2:]]
    async with site.client() as client:
        assert [(await client.get(link)).status_code for link in links] == [200, 200]
        assert [(await client.get(f"{link}0")).status_code for link in links] == [403, 403]
        signed_out = [await client.get(path) for path in paths]
    assert {answer.headers["location"].partition("?")[0] for answer in signed_out} == {"/sign-in"}


async def test_invalid_requests_lead_to_error_pages(site: sites.Site) -> None:
    """No form and no URL makes the server fail; the text is shown again where possible."""
    person = await site.add_person()
    document = await scans.upload_scan(site, person, LETTER)
    path = f"/documents/{document}/review"
    forms: Sequence[tuple[dict[str, str], int]] = [
        ({}, 400),
        ({"page": "x", "base": "0", "act": "save"}, 400),
        ({"page": "1", "base": "0", "act": "nope"}, 400),
        ({"page": "1", "base": "0", "act": "save", "line": "a", "blocks": ""}, 400),
        ({"page": "1", "base": "0", "act": "save", "line": "a", "blocks": "0,1"}, 400),
        ({"page": "9", "base": "0", "act": "save", "text": "a"}, 404),
        ({"page": "99999999999", "base": "0", "act": "save", "text": "a"}, 400),
        ({"page": "1", "base": "7", "act": "save", "text": "a"}, 409),
        ({"page": "1", "base": "0", "act": "save", "text": "a\0b\r\nc"}, 303),
    ]
    async with site.client(person) as client:
        token = {"csrf": await csrf(client)}
        for form, status in forms:
            answer = await client.post(path, data=form | token)
            assert answer.status_code == status, form
            assert status == 303 or "<h1>" in answer.text
        for query in ("page=0", "page=9", "page=x", "version=7", "page=99999999999"):
            answer = await client.get(f"{path}?{query}")
            assert answer.status_code in {400, 404}, query
            assert "<h1>" in answer.text
        assert (await client.get("/review?case=x&after=y")).status_code == 400
        # Without the token of the session, nothing.
        refused = await client.post(path, data={"page": "1", "base": "1", "act": "next"})
        assert refused.status_code == 403
    assert await _text(site, document) == ("ab\nc", 1)


async def test_unread_pages_have_a_hint(site: sites.Site) -> None:
    """So do pages that could not be recognised, whose text is to be typed."""
    person = await site.add_person()
    queued = await site.functions.factory.queued(person.case)
    unread = await scans.upload_scan(site, person, (), content=house.READABLE_PDF)
    async with site.client(person) as client:
        answer = await client.get(f"/documents/{queued}/review")
        assert (answer.status_code, "has not been read yet" in answer.text) == (404, True)
    async with site.browser(person) as page:
        await _open(page, unread)
        await expect(page.locator("main")).to_contain_text("no text was recognised")
        await page.locator("#plain-text").fill("typed\n\nby hand\n")
        await page.get_by_role("button", name="Approve and next").click()
        await expect(page.locator("#notice")).to_contain_text("That was the last page.")
    assert await _text(site, unread) == ("typed\n\nby hand\n", 1)
