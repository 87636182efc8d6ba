"""Dead letters: grouped, looked into, decided about, one or many, by one person or by two."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from pagewarden import errors
from pagewarden.dashboard import flash
from pagewarden.dashboard.pages import dead_letters
from pagewarden.documents import dead_letters as resolving
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf
from tests.functions import house

if TYPE_CHECKING:
    import httpx
    from playwright import async_api as playwright

    from tests.dashboard import site as sites
    from tests.database import factories


def listed(answer: httpx.Response) -> list[str]:
    """Return the ids of the dead letters on a page, in order."""
    return re.findall(r'<th scope="row"><a href="/dead-letters/([0-9a-f-]{36})"', answer.text)


async def states(site: sites.Site, *letters: factories.DeadLetter) -> list[str]:
    """Return the status of these dead letters."""
    found = await site.functions.factory.conn.execute(
        "select l.status from ocr_dead_letter as l join unnest(%s::uuid[]) with ordinality as i"
        " (id, n) on i.id = l.id order by i.n",
        ([letter.dlq_id for letter in letters],),
    )
    return [status for (status,) in await found.fetchall()]


async def uploaded(site: sites.Site, person: sites.Person, pages: int = 2) -> dict[str, Any]:
    """Upload a real PDF that becomes a dead letter; return the dead letter."""
    functions = site.functions
    answer = await functions.upload(person.id, house.READABLE_PDF, "Akte.pdf")
    document = answer.json()["document_id"]
    lock = await functions.factory.call(
        "acquire_document_lock", p_document_id=document, p_worker_id="reader-7"
    )
    key = {"p_document_id": document, "p_lock_token": lock["lock_token"]}
    await functions.factory.conn.execute(
        "update documents set page_count = %s where id = %s", (pages, document)
    )
    buried = await functions.factory.call(
        "move_to_dead_letter_queue", **key, p_error_message="page 3 of 7 is upside down"
    )
    return {"document_id": document, "dlq_id": buried["dlq_id"]}


async def test_dead_letters_are_grouped_by_error(site: sites.Site) -> None:
    """Errors that differ only in details form one group; the largest group is first."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    for number in (3, 4):
        await factory.dead_letter(person.case, error=f"page {number} is torn", category="unknown")
    odd = await factory.dead_letter(person.case, error="no such font")
    async with site.browser(person) as page:
        await page.goto("/")
        await page.get_by_role("link", name="Dead letters").click()
        groups = page.locator(".groups tbody tr")
        await expect(groups).to_have_count(2)
        await expect(groups.first).to_contain_text("page <n> is torn")
        await expect(groups.first.get_by_role("cell").first).to_have_text("2")
        await expect(groups.first.locator("time")).to_have_count(2)

        await page.get_by_role("link", name="no such font").first.click()
        await expect(page.locator(".selection tbody tr")).to_have_count(1)
        await page.locator(".selection a").click()
        await expect(page).to_have_url(re.compile(f"/dead-letters/{odd.dlq_id}$"))
        site.problems.clear()  # there is no file to draw


async def test_a_dead_letter_shows_its_history(site: sites.Site) -> None:
    """Attempts with worker, error and time; actions with their user; the file."""
    person, admin = await site.add_person(), await site.add_person(admin=True)
    letter = await uploaded(site, person)
    async with site.client(admin) as client:
        form = {"csrf": await csrf(client), "notes": "turned by hand"}
        await client.post(f"/dead-letters/{letter['dlq_id']}/requeue", data=form)
    lock = await site.functions.factory.call(
        "acquire_document_lock", p_document_id=letter["document_id"], p_worker_id="reader-8"
    )
    await site.functions.factory.call(
        "fail_document",
        p_document_id=letter["document_id"], p_lock_token=lock["lock_token"],
        p_error_message="out of memory", p_error_category="permanent",
    )  # fmt: skip
    async with site.browser(admin) as page:
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        history = page.locator(".history")
        for message in (
            "Attempt 1 failed", "reader-7", "page 3 of 7 is upside down",
            "Requeued", "turned by hand", admin.email,
            "reader-8", "out of memory", "Moved to dead letters",
        ):  # fmt: skip
            await expect(history).to_contain_text(message)
        image = page.locator(".preview img")
        await expect(image).to_have_js_property("complete", value=True)
        assert await image.evaluate("image => image.naturalWidth") > 100
        original = page.get_by_role("link", name="Open the original")
        answer = await page.request.get(await original.get_attribute("href") or "")
        assert (await answer.body()).startswith(b"%PDF")


async def test_each_decision_has_its_button(site: sites.Site) -> None:
    """Investigate, requeue and abandon, with notes; an abandoned document is read again."""
    person = await site.add_person(admin=True)
    letter = await uploaded(site, person)
    async with site.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        status = page.locator(".facts .status")
        for button, outcome in (
            ("Investigate", "investigating"),
            ("Abandon", "abandoned"),
            ("Undo: read again", "requeued"),
        ):
            if button == "Investigate":
                await page.get_by_label("Notes").fill("I look at it")
            await page.get_by_role("button", name=button).click()
            await expect(status).to_have_text(outcome)
        await expect(page.get_by_label("Notes")).to_have_text("I look at it")
        await expect(page.get_by_role("button", name="Requeue")).to_have_count(0)
        await page.locator(".facts").get_by_role("link", name="queued").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Akte.pdf")


async def test_text_is_typed_by_hand(site: sites.Site) -> None:
    """A field beside the picture of each page; the document completes and is searchable."""
    person = await site.add_person(admin=True)
    letter = await uploaded(site, person)
    async with site.browser(person) as page:
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        await page.get_by_role("button", name="Type by hand").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Type the text of Akte.pdf")
        await page.get_by_role("button", name="Complete the document").click()
        await expect(page.get_by_role("alert")).to_have_text("Enter the text of at least one page.")
        await page.get_by_label("Page 1").fill("Gregor Samsa\nwoke up")
        await page.get_by_label("Page 2").fill("from uneasy dreams")
        await page.get_by_role("button", name="Complete the document").click()
        await expect(page.locator("#notice")).to_contain_text("The document was completed")
        await page.goto("/documents?q=uneasy")
        await expect(page.locator(".hits mark")).to_have_text("uneasy")
        await page.goto("/tasks")
        await expect(page.get_by_text("No open tasks.")).to_be_visible()
        site.problems.clear()  # the browser tells of the form that was sent back


async def test_typed_text_survives_a_sign_out(site: sites.Site) -> None:
    """The draft is restored after signing in, and deleted once it is saved."""
    person = await site.add_person(admin=True)
    letter = await uploaded(site, person, pages=1)
    address = f"/dead-letters/{letter['dlq_id']}/type"
    async with site.browser(person) as page:
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        await page.get_by_role("button", name="Type by hand").click()
        await page.get_by_label("Page 1").fill("an hour of work")
        await page.context.clear_cookies()
        await page.get_by_role("button", name="Complete the document").click()
        await page.get_by_label("E-mail").fill(person.email)
        await page.get_by_label("Password").fill("correct horse battery staple")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("navigation").wait_for()

        await page.goto(address)
        await expect(page.get_by_text("Your unsaved text has been restored.")).to_be_visible()
        await expect(page.get_by_label("Page 1")).to_have_value("an hour of work")
        await page.get_by_role("button", name="Complete the document").click()
        await expect(page.locator("#notice")).to_contain_text("complete")
        drafts = "Object.keys(sessionStorage).filter((key) => key.startsWith('typing')).length"
        await site.wait_until(page, f"{drafts} === 0")


async def test_rejected_text_is_shown_again(site: sites.Site) -> None:
    """Another user typed the text first; the second loses nothing."""
    first, second = await site.add_person(admin=True), await site.add_person(admin=True)
    letter = await uploaded(site, first, pages=1)
    path = f"/dead-letters/{letter['dlq_id']}"
    async with site.client(first) as client, site.client(second) as other:
        mine, theirs = {"csrf": await csrf(client)}, {"csrf": await csrf(other)}
        await client.post(f"{path}/manual", data=mine)
        long = "བོད" * 333_333
        # As browsers send it.
        typed = {"page-1": (None, long)}
        done = await client.post(f"{path}/type", data=mine, files=typed, timeout=60)
        late = await other.post(f"{path}/type", data=theirs | {"page-1": "my <b>words</b>"})
        again = await other.get(f"{path}/type")
        odd = await other.post(f"{path}/type", data=theirs | {"page-0": "x", "page-x": "y"})

    assert done.status_code == 303, done.text[-2000:]
    assert late.status_code == 409
    assert "the document is now completed" in late.text
    assert "my &lt;b&gt;words&lt;/b&gt;" in late.text
    assert again.headers["location"] == path
    assert odd.status_code == 400
    found = await site.functions.factory.conn.execute("select text from ocr_pages")
    assert await found.fetchone() == (long,)


async def test_boxes_ticked_before_the_script_is_loaded_count(site: sites.Site) -> None:
    """On a slow network, the page arrives before its script."""
    person = await site.add_person(admin=True)
    for _ in range(2):
        await site.functions.factory.dead_letter(person.case)
    is_ticked = asyncio.Event()

    async def deliver_late(route: playwright.Route) -> None:
        await is_ticked.wait()
        await route.continue_()

    async with site.browser(person) as page:
        await page.route("**/bulk_actions.js", deliver_late)
        await page.goto("/dead-letters", wait_until="commit")
        await page.get_by_label("Select all shown").check()
        is_ticked.set()
        await expect(page.get_by_text("2 selected")).to_be_visible()


async def test_selected_dead_letters_are_resolved(site: sites.Site) -> None:
    """Skipped dead letters are reported with the reason."""
    person, other = await site.add_person(admin=True), await site.add_person(admin=True)
    factory = site.functions.factory
    letters = [await factory.dead_letter(person.case) for _ in range(3)]
    async with site.browser(person) as page:
        await page.goto("/dead-letters")
        await page.get_by_role("button", name="Requeue", exact=True).click()
        await expect(page.locator(".notice.bad")).to_contain_text("select at least one")

        await page.get_by_label("Select all shown").check()
        await expect(page.get_by_text("3 selected")).to_be_visible()
        await page.locator("tbody input").first.uncheck()
        await expect(page.get_by_text("2 selected")).to_be_visible()
        await page.get_by_label("Select all shown").check()
        async with site.client(other) as client:
            form = {"csrf": await csrf(client)}
            await client.post(f"/dead-letters/{letters[0].dlq_id}/abandon", data=form)
        await page.get_by_label("Notes").first.fill("a new font is there")
        await page.get_by_role("button", name="Requeue", exact=True).click()

        notice = page.locator("#notice")
        await expect(notice).to_contain_text("Requeued: 2 dead letters. Skipped 1:")
        await expect(notice).to_contain_text(f"(abandoned by {other.email} at 20")
    assert await states(site, *letters) == ["abandoned", "requeued", "requeued"]


async def test_all_matching_dead_letters_are_resolved(site: sites.Site) -> None:
    """After confirmation with their number; only with a filter."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    torn = [await factory.dead_letter(person.case, error=f"page {n} torn") for n in range(3)]
    other = await factory.dead_letter(person.case, error="no such font")
    asked: list[str] = []

    async def answer(dialog: playwright.Dialog) -> None:
        asked.append(dialog.message)
        await (dialog.dismiss() if len(asked) == 1 else dialog.accept())

    async with site.browser(person) as page:
        page.on("dialog", answer)
        await page.goto("/dead-letters")
        await expect(page.locator(".all-matching")).to_have_count(0)
        await expect(page.locator(".hint")).to_contain_text("select a filter")
        await page.locator(".groups a").first.click()
        button = page.get_by_role("button", name="Abandon all 3")
        await button.click()
        assert await states(site, *torn) == ["pending"] * 3
        late = await factory.dead_letter(person.case, error="page 9 torn")
        await button.click()
        await expect(page.locator("#notice")).to_contain_text("Abandoned: 3 dead letters.")
    assert asked[0] == "Abandon: all 3 matching dead letters?"
    assert await states(site, *torn, other, late) == ["abandoned"] * 3 + ["pending"] * 2


async def test_all_matching_are_resolved_in_batches(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, even if it still matches; an empty filter is rejected."""
    monkeypatch.setattr(resolving, "BATCH", 2)
    person, factory = await site.add_person(admin=True), site.functions.factory
    letters = [await factory.dead_letter(person.case) for _ in range(5)]
    async with site.client(person) as client:
        form: dict[str, Any] = {"csrf": await csrf(client), "seen_at": "2100-01-01"}
        form["act"] = "investigate"
        answer = await client.post(f"/dead-letters/all?case={person.case}", data=form)
        answer = await client.get(answer.headers["location"])
        chosen = {"id": [str(letter.dlq_id) for letter in letters]}
        form = form | chosen | {"act": "requeue"}
        again = await client.post("/dead-letters/selected", data=form)
    assert "You are investigating 5 dead letters." in answer.text
    assert "5%20dead%20letters" in again.headers["set-cookie"]
    assert await states(site, *letters) == ["requeued"] * 5
    with pytest.raises(errors.InvalidArgument, match="the filter is empty"):
        await resolving.resolve_all(site.functions.used.database, {}, "abandon", None)


async def test_actions_on_all_need_a_filter(site: sites.Site) -> None:
    """Empty and invalid filters are rejected."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    letter = await factory.dead_letter(person.case)
    async with site.client(person) as client:
        form = {"csrf": await csrf(client), "act": "abandon", "seen_at": "2100-01-01T00:00:00Z"}
        for query in ("", "?name=%20%20", "?before=2100-01-01T00:00:00Z", "?nope=1"):
            answer = await client.post(f"/dead-letters/all{query}", data=form)
            assert answer.status_code == 303
            answer = await client.get(answer.headers["location"])
            assert "select a filter" in answer.text, query
        wrong = await client.post("/dead-letters/all?status=nope", data=form)
        assert wrong.status_code == 400
    assert await states(site, letter) == ["pending"]


async def test_concurrent_decisions_name_the_first_user(site: sites.Site) -> None:
    """The second sees who decided, what, and when."""
    first, second = await site.add_person(admin=True), await site.add_person(admin=True)
    letter = await uploaded(site, first)
    path = f"/dead-letters/{letter['dlq_id']}"
    async with site.browser(first) as page, site.browser(second) as other:
        await page.goto(path)
        await other.goto(path)
        await page.get_by_role("button", name="Investigate").click()
        await expect(page.locator("#notice")).to_contain_text("You are investigating")
        await other.get_by_role("button", name="Investigate").click()
        message = other.locator("#notice")
        await expect(message).to_contain_text(f"{first.email} has been investigating it since 20")
        await other.get_by_role("button", name="Requeue").click()
        await expect(message).to_contain_text(f"{first.email} was still investigating it")
        await page.get_by_role("button", name="Requeue").click()
        await expect(page.locator("#notice")).to_contain_text(f"requeued by {second.email} at 20")


async def test_one_of_many_concurrent_decisions_succeeds(site: sites.Site) -> None:
    """Eight users decide at the same time."""
    people = [await site.add_person(admin=True) for _ in range(2)]
    letter = await site.functions.factory.dead_letter(people[0].case)
    path = f"/dead-letters/{letter.dlq_id}/requeue"
    async with site.client(people[0]) as client, site.client(people[1]) as other:
        forms = [(each, {"csrf": await csrf(each)}) for each in (client, other)]
        answers = await asyncio.gather(*(who.post(path, data=form) for who, form in forms * 4))
    notices = [answer.headers["set-cookie"] for answer in answers]
    assert sum("good%20Requeued" in each for each in notices) == 1
    assert sum("bad%20requeued%20by" in each for each in notices) == 7


async def test_dead_letters_are_filtered_and_paged(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By status, category, case, group and name; each dead letter is on one page."""
    monkeypatch.setattr(dead_letters, "ROWS", 2)
    monkeypatch.setattr(dead_letters, "GROUPS", 1)
    person, factory = await site.add_person(admin=True), site.functions.factory
    case = await factory.case(person.id)
    created = [await factory.dead_letter(person.case, error=f"odd {n}") for n in range(4)]
    odd = await factory.dead_letter(case, error="no font & more", category="configuration")
    await factory.call("resolve_dead_letter", p_dlq_id=created[0].dlq_id, p_action="manual")
    expected = {
        "status=manual": [created[0]],
        "category=configuration": [odd],
        f"case={case}": [odd],
        "group=odd+%3Cn%3E": created[:0:-1],
        "group=no+font+%26+more": [odd],
        "": [odd, *created[:0:-1]],
        "status=abandoned": [],
        "name=nothing+like+it": [],
    }
    async with site.client(person) as client:
        for query, letters in expected.items():
            seen: list[str] = []
            path: str | None = f"/dead-letters?{query}"
            while path:
                answer = await client.get(path)
                assert answer.status_code == 200, query
                seen += listed(answer)
                more = re.search(r'class="more" href="([^"]+)"', answer.text)
                path = more[1].replace("&amp;", "&") if more else None
            assert seen == [str(letter.dlq_id) for letter in letters], query
        first = await client.get("/dead-letters")
        assert "More groups" in first.text
        assert "no font &amp; more" in (await client.get("/dead-letters?offset=1")).text
        for query in ("case=x", "before=x", "before_id=x", "status=x", "offset=x", "name=%00"):
            assert (await client.get(f"/dead-letters?{query}")).status_code in {400, 404}, query


async def test_filters_apply_while_typing(site: sites.Site) -> None:
    """The list is updated without a reload."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    await factory.dead_letter(person.case)
    letter = await factory.dead_letter(person.case, category="transient")
    async with site.browser(person) as page:
        await page.goto("/dead-letters")
        await expect(page.locator(".selection tbody tr")).to_have_count(2)
        await page.get_by_label("Category").select_option("transient")
        await expect(page.locator(".selection tbody tr")).to_have_count(1)
        await expect(page).to_have_url(re.compile("category=transient"))
        await expect(page.get_by_role("button", name="Requeue all 1")).to_be_visible()
        await page.get_by_label("Document name").fill("no such name")
        await expect(page.get_by_text("No matching dead letters.")).to_be_visible()
    assert await states(site, letter) == ["pending"]


async def test_members_cannot_resolve_dead_letters(site: sites.Site) -> None:
    """Other cases are hidden; so are the addresses of HAC."""
    owner, stranger = await site.add_person(), await site.add_person()
    admin, factory = await site.add_person(admin=True), site.functions.factory
    letter = await factory.dead_letter(owner.case)
    path = f"/dead-letters/{letter.dlq_id}"
    async with site.client(admin) as client:
        await client.post(f"{path}/investigate", data={"csrf": await csrf(client)})
    async with site.client(owner) as client, site.client(stranger) as other:
        mine = await client.get(path)
        assert "the file is broken" in mine.text
        assert admin.email not in mine.text
        assert "Requeue" not in mine.text
        assert listed(await client.get("/dead-letters")) == [str(letter.dlq_id)]
        form = {"csrf": await csrf(client), "act": "requeue", "id": str(letter.dlq_id)}
        for act in (f"{path}/requeue", f"{path}/type", "/dead-letters/selected"):
            assert (await client.post(act, data=form)).status_code == 403
        assert (await other.get(path)).status_code == 404
        assert listed(await other.get("/dead-letters")) == []
        assert (await other.get(f"/dead-letters/{uuid.uuid4()}")).status_code == 404
    assert await states(site, letter) == ["investigating"]


async def test_markup_in_dead_letters_is_escaped(site: sites.Site) -> None:
    """In groups, lists, histories, notes and notices."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    letter = await factory.dead_letter(person.case, error=f"<img src=y onerror=z> {EVIL}")
    await factory.conn.execute("update ocr_dead_letter set document_name = %s", (EVIL,))
    await factory.conn.execute("update documents set name = %s", (EVIL,))
    path = f"/dead-letters/{letter.dlq_id}"
    async with site.browser(person) as page:
        await page.goto(path)
        await page.get_by_label("Notes").fill(EVIL)
        await page.get_by_role("button", name="Type by hand").click()
        for address in (
            "/dead-letters?status=manual", path, f"{path}/type", "/tasks", f"/dead-letters?{EVIL}",
        ):  # fmt: skip
            await page.goto(address)
            assert await page.title() != "ran"
            assert await page.locator("main script, main img[onerror]").count() == 0
        site.problems.clear()  # there is no file to draw


def test_long_lists_of_skipped_items_are_shortened() -> None:
    """The notice must fit into a cookie."""
    skipped = [{"name": f"file-{n}", "message": "why"} for n in range(100)]
    cookie = flash.redirect_with_outcome("/x", 1, "Done: 1.", skipped).headers["set-cookie"]
    assert "file-7%20%28why%29" in cookie
    assert "and%2092%20more" in cookie
    assert flash.format_count(1, "task") == "1 task"
    assert flash.format_count(5000, "task") == "5,000 tasks"
