"""Dead letters: grouped, looked into, decided about, one or many, by one person or by two."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from dashboard import outcomes
from dashboard.pages import dead_letters
from pagewarden import dead_letters as resolving
from pagewarden import errors
from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL
from tests.functions import house

if TYPE_CHECKING:
    import httpx
    from playwright import async_api as playwright

    from tests.dashboard import place as places
    from tests.database import factories


def listed(answer: httpx.Response) -> list[str]:
    """Find the dead letters of a page, in order."""
    return re.findall(r'<th scope="row"><a href="/dead-letters/([0-9a-f-]{36})"', answer.text)


async def states(place: places.Place, *letters: factories.DeadLetter) -> list[str]:
    """Say what became of them."""
    found = await place.functions.factory.conn.execute(
        "select l.status from ocr_dead_letter as l join unnest(%s::uuid[]) with ordinality as i"
        " (id, n) on i.id = l.id order by i.n",
        ([letter.dlq_id for letter in letters],),
    )
    return [status for (status,) in await found.fetchall()]


async def uploaded(place: places.Place, person: places.Person, pages: int = 2) -> dict[str, Any]:
    """Upload a real PDF, and have a worker give up on it; its letter, as HAC sees it."""
    functions = place.functions
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


async def test_dead_letters_are_grouped_by_what_went_wrong(place: places.Place) -> None:
    """What differs between two cases of one fault does not part them; the largest is first."""
    person, factory = await place.person(admin=True), place.functions.factory
    for number in (3, 4):
        await factory.dead_letter(person.case, error=f"page {number} is torn", category="unknown")
    odd = await factory.dead_letter(person.case, error="no such font")
    async with place.browser(person) as page:
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
        place.problems.clear()  # there is no file to draw


async def test_a_dead_letter_shows_all_that_happened(place: places.Place) -> None:
    """Every attempt with its worker, error and time; every act with its person; the file."""
    person, admin = await place.person(), await place.person(admin=True)
    letter = await uploaded(place, person)
    async with place.visitor(admin) as client:
        form = {"csrf": await csrf(client), "notes": "turned by hand"}
        await client.post(f"/dead-letters/{letter['dlq_id']}/requeue", data=form)
    lock = await place.functions.factory.call(
        "acquire_document_lock", p_document_id=letter["document_id"], p_worker_id="reader-8"
    )
    await place.functions.factory.call(
        "fail_document",
        p_document_id=letter["document_id"], p_lock_token=lock["lock_token"],
        p_error_message="out of memory", p_error_category="permanent",
    )  # fmt: skip
    async with place.browser(admin) as page:
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        history = page.locator(".history")
        for told in (
            "Attempt 1 failed", "reader-7", "page 3 of 7 is upside down",
            "Queued again", "turned by hand", admin.email,
            "reader-8", "out of memory", "Given up, as a dead letter",
        ):  # fmt: skip
            await expect(history).to_contain_text(told)
        image = page.locator(".preview img")
        await expect(image).to_have_js_property("complete", value=True)
        assert await image.evaluate("image => image.naturalWidth") > 100
        original = page.get_by_role("link", name="Open the original")
        answer = await page.request.get(await original.get_attribute("href") or "")
        assert (await answer.body()).startswith(b"%PDF")


async def test_each_decision_has_its_button(place: places.Place) -> None:
    """Investigate, requeue and abandon, with notes; what was abandoned is read again."""
    person = await place.person(admin=True)
    letter = await uploaded(place, person)
    async with place.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        status = page.locator(".facts .status")
        for button, outcome in (
            ("Investigate", "investigating"),
            ("Abandon", "abandoned"),
            ("Undo: read it again", "requeued"),
        ):
            if button == "Investigate":
                await page.get_by_label("Notes").fill("I look at it")
            await page.get_by_role("button", name=button).click()
            await expect(status).to_have_text(outcome)
        await expect(page.get_by_label("Notes")).to_have_text("I look at it")
        await expect(page.get_by_role("button", name="Requeue")).to_have_count(0)
        await page.locator(".facts").get_by_role("link", name="queued").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Akte.pdf")


async def test_what_no_machine_reads_is_typed(place: places.Place) -> None:
    """A field for each page beside its picture; the document completes, and the text is found."""
    person = await place.person(admin=True)
    letter = await uploaded(place, person)
    async with place.browser(person) as page:
        await page.goto(f"/dead-letters/{letter['dlq_id']}")
        await page.get_by_role("button", name="Type by hand").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Type Akte.pdf")
        await page.get_by_role("button", name="Complete the document").click()
        await expect(page.get_by_role("alert")).to_have_text("Nothing is typed yet.")
        await page.get_by_label("Page 1").fill("Gregor Samsa\nwoke up")
        await page.get_by_label("Page 2").fill("from uneasy dreams")
        await page.get_by_role("button", name="Complete the document").click()
        await expect(page.locator("#notice")).to_contain_text("The document is complete")
        await page.goto("/documents?q=uneasy")
        await expect(page.locator(".hits mark")).to_have_text("uneasy")
        await page.goto("/tasks")
        await expect(page.get_by_text("Nothing waits for anybody.")).to_be_visible()
        place.problems.clear()  # the browser tells of the form that was sent back


async def test_what_was_typed_survives_the_end_of_the_session(place: places.Place) -> None:
    """Signed out in mid-sentence, one comes back, and the text is there; then it is forgotten."""
    person = await place.person(admin=True)
    letter = await uploaded(place, person, pages=1)
    address = f"/dead-letters/{letter['dlq_id']}/type"
    async with place.browser(person) as page:
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
        await expect(page.get_by_text("What you had typed before is here again.")).to_be_visible()
        await expect(page.get_by_label("Page 1")).to_have_value("an hour of work")
        await page.get_by_role("button", name="Complete the document").click()
        await expect(page.locator("#notice")).to_contain_text("complete")
        drafts = "Object.keys(sessionStorage).filter((key) => key.startsWith('typing')).length"
        await place.becomes(page, f"{drafts} === 0")


async def test_text_that_cannot_be_kept_is_shown_again(place: places.Place) -> None:
    """Another one typed it meanwhile: the second is told, and loses nothing."""
    first, second = await place.person(admin=True), await place.person(admin=True)
    letter = await uploaded(place, first, pages=1)
    path = f"/dead-letters/{letter['dlq_id']}"
    async with place.visitor(first) as client, place.visitor(second) as other:
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
    assert "the document is completed now" in late.text
    assert "my &lt;b&gt;words&lt;/b&gt;" in late.text
    assert again.headers["location"] == path
    assert odd.status_code == 400
    found = await place.functions.factory.conn.execute("select text from ocr_pages")
    assert await found.fetchone() == (long,)


async def test_boxes_ticked_before_the_script_is_loaded_count(place: places.Place) -> None:
    """A slow network delivers the page before its script; the selection is complete afterwards."""
    person = await place.person(admin=True)
    for _ in range(2):
        await place.functions.factory.dead_letter(person.case)
    is_ticked = asyncio.Event()

    async def deliver_late(route: playwright.Route) -> None:
        await is_ticked.wait()
        await route.continue_()

    async with place.browser(person) as page:
        await page.route("**/attention.js", deliver_late)
        await page.goto("/dead-letters", wait_until="commit")
        await page.get_by_label("Choose all shown").check()
        is_ticked.set()
        await expect(page.get_by_text("2 chosen")).to_be_visible()


async def test_a_selection_is_decided_at_once(place: places.Place) -> None:
    """Boxes, or all that are shown; whatever somebody else was quicker with is told."""
    person, other = await place.person(admin=True), await place.person(admin=True)
    factory = place.functions.factory
    letters = [await factory.dead_letter(person.case) for _ in range(3)]
    async with place.browser(person) as page:
        await page.goto("/dead-letters")
        await page.get_by_role("button", name="Requeue", exact=True).click()
        await expect(page.locator(".notice.bad")).to_contain_text("choose at least one")

        await page.get_by_label("Choose all shown").check()
        await expect(page.get_by_text("3 chosen")).to_be_visible()
        await page.locator("tbody input").first.uncheck()
        await expect(page.get_by_text("2 chosen")).to_be_visible()
        await page.get_by_label("Choose all shown").check()
        async with place.visitor(other) as client:
            form = {"csrf": await csrf(client)}
            await client.post(f"/dead-letters/{letters[0].dlq_id}/abandon", data=form)
        await page.get_by_label("Notes").first.fill("a new font is there")
        await page.get_by_role("button", name="Requeue", exact=True).click()

        said = page.locator("#notice")
        await expect(said).to_contain_text("In the queue again: 2 dead letters. Skipped 1:")
        await expect(said).to_contain_text(f"(abandoned by {other.email} at 20")
    assert await states(place, *letters) == ["abandoned", "requeued", "requeued"]


async def test_all_that_match_a_filter_are_decided_at_once(place: places.Place) -> None:
    """The number is shown and asked about first; without a filter there is no such act."""
    person, factory = await place.person(admin=True), place.functions.factory
    torn = [await factory.dead_letter(person.case, error=f"page {n} torn") for n in range(3)]
    other = await factory.dead_letter(person.case, error="no such font")
    asked: list[str] = []

    async def answer(dialog: playwright.Dialog) -> None:
        asked.append(dialog.message)
        await (dialog.dismiss() if len(asked) == 1 else dialog.accept())

    async with place.browser(person) as page:
        page.on("dialog", answer)
        await page.goto("/dead-letters")
        await expect(page.locator(".everything")).to_have_count(0)
        await expect(page.locator(".hint")).to_contain_text("choose a filter first")
        await page.locator(".groups a").first.click()
        button = page.get_by_role("button", name="Abandon all 3")
        await button.click()
        assert await states(place, *torn) == ["pending"] * 3
        late = await factory.dead_letter(person.case, error="page 9 torn")
        await button.click()
        await expect(page.locator("#notice")).to_contain_text("Abandoned: 3 dead letters.")
    assert "all 3 dead letters" in asked[0]
    assert await states(place, *torn, other, late) == ["abandoned"] * 3 + ["pending"] * 2


async def test_many_are_decided_batch_by_batch(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, also when they go on matching; with an empty filter nobody gets that far."""
    monkeypatch.setattr(resolving, "BATCH", 2)
    person, factory = await place.person(admin=True), place.functions.factory
    letters = [await factory.dead_letter(person.case) for _ in range(5)]
    async with place.visitor(person) as client:
        form: dict[str, Any] = {"csrf": await csrf(client), "seen_at": "2100-01-01"}
        form["act"] = "investigate"
        answer = await client.post(f"/dead-letters/all?case={person.case}", data=form)
        said = await client.get(answer.headers["location"])
        chosen = {"id": [str(letter.dlq_id) for letter in letters]}
        form = form | chosen | {"act": "requeue"}
        again = await client.post("/dead-letters/selected", data=form)
    assert "You are investigating 5 dead letters." in said.text
    assert "5%20dead%20letters" in again.headers["set-cookie"]
    assert await states(place, *letters) == ["requeued"] * 5
    with pytest.raises(errors.InvalidCall, match="the filter is empty"):
        await resolving.resolve(place.functions.used.database, {}, "abandon", None)


async def test_nobody_decides_about_everything(place: places.Place) -> None:
    """An empty filter is refused however it is sent, and so is one that knows no such thing."""
    person, factory = await place.person(admin=True), place.functions.factory
    letter = await factory.dead_letter(person.case)
    async with place.visitor(person) as client:
        form = {"csrf": await csrf(client), "act": "abandon", "seen_at": "2100-01-01T00:00:00Z"}
        for query in ("", "?name=%20%20", "?before=2100-01-01T00:00:00Z", "?nope=1"):
            answer = await client.post(f"/dead-letters/all{query}", data=form)
            assert answer.status_code == 303
            said = await client.get(answer.headers["location"])
            assert "choose a filter first" in said.text, query
        wrong = await client.post("/dead-letters/all?status=nope", data=form)
        assert wrong.status_code == 400
    assert await states(place, letter) == ["pending"]


async def test_two_decide_at_once_and_the_second_is_told(place: places.Place) -> None:
    """Who was first, what it was, and when; one of them succeeds, whatever the moment."""
    first, second = await place.person(admin=True), await place.person(admin=True)
    letter = await uploaded(place, first)
    path = f"/dead-letters/{letter['dlq_id']}"
    async with place.browser(first) as page, place.browser(second) as other:
        await page.goto(path)
        await other.goto(path)
        await page.get_by_role("button", name="Investigate").click()
        await expect(page.locator("#notice")).to_contain_text("You are investigating")
        await other.get_by_role("button", name="Investigate").click()
        told = other.locator("#notice")
        await expect(told).to_contain_text(f"{first.email} has been investigating it since 20")
        await other.get_by_role("button", name="Requeue").click()
        await expect(told).to_contain_text(f"{first.email} was still investigating it")
        await page.get_by_role("button", name="Requeue").click()
        await expect(page.locator("#notice")).to_contain_text(f"requeued by {second.email} at 20")


async def test_of_many_at_once_one_succeeds(place: places.Place) -> None:
    """Eight decide in the same moment."""
    people = [await place.person(admin=True) for _ in range(2)]
    letter = await place.functions.factory.dead_letter(people[0].case)
    path = f"/dead-letters/{letter.dlq_id}/requeue"
    async with place.visitor(people[0]) as client, place.visitor(people[1]) as other:
        forms = [(each, {"csrf": await csrf(each)}) for each in (client, other)]
        answers = await asyncio.gather(*(who.post(path, data=form) for who, form in forms * 4))
    said = [answer.headers["set-cookie"] for answer in answers]
    assert sum("good%20In%20the%20queue" in each for each in said) == 1
    assert sum("bad%20requeued%20by" in each for each in said) == 7


async def test_filters_choose_and_lists_go_on(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By status, category, case, group and name, page by page, each dead letter once."""
    monkeypatch.setattr(dead_letters, "ROWS", 2)
    monkeypatch.setattr(dead_letters, "GROUPS", 1)
    person, factory = await place.person(admin=True), place.functions.factory
    case = await factory.case(person.id)
    made = [await factory.dead_letter(person.case, error=f"odd {n}") for n in range(4)]
    odd = await factory.dead_letter(case, error="no font & more", category="configuration")
    await factory.call("resolve_dead_letter", p_dlq_id=made[0].dlq_id, p_action="manual")
    expected = {
        "status=manual": [made[0]],
        "category=configuration": [odd],
        f"case={case}": [odd],
        "group=odd+%3Cn%3E": made[:0:-1],
        "group=no+font+%26+more": [odd],
        "": [odd, *made[:0:-1]],
        "status=abandoned": [],
        "name=nothing+like+it": [],
    }
    async with place.visitor(person) as client:
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


async def test_a_filter_is_applied_as_one_types(place: places.Place) -> None:
    """The list follows the name and the choices, without a reload."""
    person, factory = await place.person(admin=True), place.functions.factory
    await factory.dead_letter(person.case)
    letter = await factory.dead_letter(person.case, category="transient")
    async with place.browser(person) as page:
        await page.goto("/dead-letters")
        await expect(page.locator(".selection tbody tr")).to_have_count(2)
        await page.get_by_label("Category").select_option("transient")
        await expect(page.locator(".selection tbody tr")).to_have_count(1)
        await expect(page).to_have_url(re.compile("category=transient"))
        await expect(page.get_by_role("button", name="Requeue all 1")).to_be_visible()
        await page.get_by_label("Name of the document").fill("no such name")
        await expect(page.get_by_text("No dead letter matches.")).to_be_visible()
    assert await states(place, letter) == ["pending"]


async def test_people_of_a_case_see_theirs_and_decide_nothing(place: places.Place) -> None:
    """Others' letters are not there; acts are for HAC; addresses of HAC are not told."""
    owner, stranger = await place.person(), await place.person()
    admin, factory = await place.person(admin=True), place.functions.factory
    letter = await factory.dead_letter(owner.case)
    path = f"/dead-letters/{letter.dlq_id}"
    async with place.visitor(admin) as client:
        await client.post(f"{path}/investigate", data={"csrf": await csrf(client)})
    async with place.visitor(owner) as client, place.visitor(stranger) as other:
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
    assert await states(place, letter) == ["investigating"]


async def test_nothing_in_errors_names_or_notes_runs(place: places.Place) -> None:
    """Markup is shown as it is, in groups, lists, histories, notes and what is said."""
    person, factory = await place.person(admin=True), place.functions.factory
    letter = await factory.dead_letter(person.case, error=f"<img src=y onerror=z> {EVIL}")
    await factory.conn.execute("update ocr_dead_letter set document_name = %s", (EVIL,))
    await factory.conn.execute("update documents set name = %s", (EVIL,))
    path = f"/dead-letters/{letter.dlq_id}"
    async with place.browser(person) as page:
        await page.goto(path)
        await page.get_by_label("Notes").fill(EVIL)
        await page.get_by_role("button", name="Type by hand").click()
        for address in (
            "/dead-letters?status=manual", path, f"{path}/type", "/tasks", f"/dead-letters?{EVIL}",
        ):  # fmt: skip
            await page.goto(address)
            assert await page.title() != "ran"
            assert await page.locator("main script, main img[onerror]").count() == 0
        place.problems.clear()  # there is no file to draw


def test_what_was_skipped_is_told_in_few_words() -> None:
    """However many there were, the message stays short."""
    skipped = [{"name": f"file-{n}", "message": "why"} for n in range(100)]
    said = outcomes.after("/x", 1, "Done: 1.", skipped).headers["set-cookie"]
    assert "file-7%20%28why%29" in said
    assert "and%2092%20more" in said
    assert outcomes.count(1, "task") == "1 task"
    assert outcomes.count(5000, "task") == "5,000 tasks"
