"""Cases: made, shared, ended."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from playwright.async_api import expect

from dashboard.pages import cases
from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL

if TYPE_CHECKING:
    import httpx
    import pytest

    from tests.dashboard import place as places


def _listed(answer: httpx.Response) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/cases/([0-9a-f-]+)"', answer.text)


async def test_a_case_is_made_shared_and_taken_away_again(place: places.Place) -> None:
    """By address, as viewer, then as editor; the other sees it for as long."""
    person, other = await place.person(), await place.person()
    async with place.browser(person) as page, place.visitor(other) as theirs:
        page.on("dialog", lambda dialog: dialog.accept())
        notice = page.locator("#notice")
        await page.goto("/cases")
        await page.get_by_label("Name of the case").fill(f"Estate {EVIL}")
        await page.get_by_role("button", name="Make the case").click()
        await expect(page.locator("h1")).to_have_text(f"Estate {EVIL}")
        path = page.url.removeprefix(place.url)
        assert (await theirs.get(path)).status_code == 404

        await page.get_by_label("Share with").fill("nobody@example.org")
        await page.get_by_role("button", name="Share").click()
        await expect(notice).to_contain_text("no user with this address can sign in")
        await page.get_by_label("Share with").fill(other.email.upper())
        await page.get_by_role("button", name="Share").click()
        row = page.locator("tbody tr", has_text=other.email)
        await expect(row).to_contain_text("viewer")
        assert other.email in (await theirs.get(path)).text
        assert "Erase" not in (await theirs.get(path)).text
        await page.get_by_role("button", name=f"Make editor: {other.email}").click()
        await expect(row).to_contain_text("editor")
        await page.get_by_role("button", name=f"Take away: {other.email}").click()
        await expect(notice).to_contain_text("do not see the case any more")
        assert (await theirs.get(path)).status_code == 404


async def test_a_case_is_cancelled_put_away_and_taken_back(place: places.Place) -> None:
    """What is open ends; the bin gives back what went into it."""
    person, factory = await place.person(), place.functions.factory
    await factory.completed(person.case)
    await factory.queued(person.case)
    async with place.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(f"/cases/{person.case}")
        statuses = page.get_by_role("list", name="Documents by status")
        await expect(statuses).to_contain_text("queued: 1")
        await page.get_by_role("button", name="Cancel what is open").click()
        await expect(page.locator("#notice")).to_contain_text("Cancelled: 1 document.")
        await expect(statuses).to_contain_text("cancelled: 1")
        await page.get_by_role("button", name="Delete").click()
        await expect(page.locator("#notice")).to_contain_text("in the bin, with 2 documents")
        await page.goto("/cases")
        await expect(page.locator("#results")).to_contain_text("There are no cases yet")
        await page.get_by_label("Bin").check()
        await page.locator("#results a").click()
        await page.get_by_role("button", name="Restore").click()
        await expect(page.locator("#notice")).to_contain_text("out of the bin, with 2 documents")
        await expect(statuses).to_contain_text("completed: 1")


async def test_a_case_is_erased_by_whoever_types_its_name(place: places.Place) -> None:
    """It says before what will be gone; the wrong name does nothing."""
    person, factory = await place.person(), place.functions.factory
    await factory.completed(person.case)
    async with place.browser(person) as page:
        await page.goto(f"/cases/{person.case}")
        name = await page.locator("h1").inner_text()
        await page.get_by_role("link", name="Erase for good").click()
        await expect(page.locator("main")).to_contain_text("1 pages, with all text")
        await expect(page.locator("main")).to_contain_text("1 files")
        await page.get_by_label("Type the name").fill("something else")
        await page.get_by_role("button", name="Erase for good").click()
        await expect(page.locator("#notice")).to_contain_text("Nothing was erased")
        await page.get_by_label("Type the name").fill(name)
        await page.get_by_role("button", name="Erase for good").click()
        await expect(page.locator("#notice")).to_contain_text("Erased: 1 document.")
        await page.goto("/audit")
        await expect(page.locator("#results")).to_contain_text("Nothing has been done yet")
    assert await place.functions.documents() == []


async def test_a_case_is_found_by_its_name(place: places.Place) -> None:
    """Typing is enough; counts are of what is in it, and lead there."""
    person, factory = await place.person(), place.functions.factory
    await factory.call("create_case", p_name="Land of Ada", p_owner=person.id)
    await factory.completed(person.case)
    await factory.dead_letter(person.case)
    async with place.browser(person) as page:
        await page.goto("/cases")
        row = page.locator("tbody tr").nth(1)
        await expect(row.locator("[data-label=Documents]")).to_have_text("2")
        await expect(row.locator("[data-label=Completed]")).to_have_text("1")
        await expect(row.locator("[data-label='Need attention']")).to_have_text("1")
        await page.get_by_role("searchbox").fill("land OF")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page).to_have_url(re.compile("q=land"))
        await page.goto(f"/cases/{person.case}")
        await page.get_by_role("link", name="Show the documents").click()
        await expect(page.locator("#results tbody tr")).to_have_count(2)


async def test_strangers_and_viewers_cannot_act(place: places.Place) -> None:
    """A stranger finds nothing at all, whatever is asked; a viewer is refused."""
    person, viewer, stranger = [await place.person() for _ in range(3)]
    case = await place.functions.factory.case(person.id, viewer=viewer.id)
    acts = {
        "share": {"email": viewer.email, "role": "editor"},
        "unshare": {"user_id": str(viewer.id)},
        "cancel": {}, "delete": {}, "restore": {},
        "erase": {"name": "anything"},
    }  # fmt: skip
    async with place.visitor(stranger) as client:
        given = {"csrf": await csrf(client)}
        for act, form in acts.items():
            answer = await client.post(f"/cases/{case}/{act}", data=given | form)
            assert answer.status_code == 404, act
        for path in (
            f"/cases/{case}",
            f"/cases/{case}/erase",
            f"/cases/{uuid.uuid4()}",
            "/cases/x",
        ):
            assert (await client.get(path)).status_code == 404, path
    async with place.visitor(viewer) as client:
        given = {"csrf": await csrf(client)}
        name = re.findall(r'<h1 class="name">(.*?)</h1>', (await client.get(f"/cases/{case}")).text)
        acts["erase"] = {"name": name[0]}
        for act, form in acts.items():
            answer = await client.post(f"/cases/{case}/{act}", data=given | form)
            assert answer.status_code == 403, act
        assert (await client.get(f"/cases/{case}/erase")).status_code == 403
        assert (await client.post(f"/cases/{case}/nonsense", data=given)).status_code == 404


async def test_lists_of_cases_go_on_where_they_ended(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case is on one page; senseless addresses are refused as pages."""
    monkeypatch.setattr(cases, "ROWS", 2)
    person = await place.person()
    made = [person.case, *[await place.functions.factory.case(person.id) for _ in range(4)]]
    seen: list[str] = []
    async with place.visitor(person) as client:
        path: str | None = "/cases"
        while path:
            answer = await client.get(path)
            seen += _listed(answer)
            found = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = found[1].replace("&amp;", "&") if found else None
        for query in ("before=nope", "before_id=x", "q=%00", "kind=nope", "bin=perhaps"):
            answer = await client.get(f"/cases?{query}")
            assert answer.status_code in {200, 400, 404}, query
            assert "<h1>" in answer.text
        empty = await client.post("/cases", data={"csrf": await csrf(client), "name": " "})
        assert "Give the case a name" in (await client.get(empty.headers["location"])).text
    assert seen == [str(case) for case in reversed(made)]
