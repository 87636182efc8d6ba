"""Cases: made, shared, ended."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.dashboard.pages import cases
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    import httpx
    import pytest

    from tests.dashboard import site as sites


def _listed(answer: httpx.Response) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/cases/([0-9a-f-]+)"', answer.text)


async def test_a_case_is_created_shared_and_unshared(site: sites.Site) -> None:
    """Shared by e-mail address, as viewer and as editor."""
    person, other = await site.add_person(), await site.add_person()
    async with site.browser(person) as page, site.client(other) as theirs:
        page.on("dialog", lambda dialog: dialog.accept())
        notice = page.locator("#notice")
        await page.goto("/cases")
        await page.get_by_label("Name", exact=True).fill(f"Estate {EVIL}")
        await page.get_by_role("button", name="Create case").click()
        await expect(page.locator("h1")).to_have_text(f"Estate {EVIL}")
        path = page.url.removeprefix(site.url)
        assert (await theirs.get(path)).status_code == 404

        await page.get_by_label("Share with").fill("nobody@example.org")
        await page.get_by_role("button", name="Share").click()
        await expect(notice).to_contain_text("no user has this address")
        await page.get_by_label("Share with").fill(other.email.upper())
        await page.get_by_role("button", name="Share").click()
        row = page.locator("tbody tr", has_text=other.email)
        await expect(row).to_contain_text("viewer")
        assert other.email in (await theirs.get(path)).text
        assert "Erase" not in (await theirs.get(path)).text
        await page.get_by_role("button", name=f"Make editor: {other.email}").click()
        await expect(row).to_contain_text("editor")
        await page.get_by_role("button", name=f"Remove: {other.email}").click()
        await expect(notice).to_contain_text("Member removed")
        assert (await theirs.get(path)).status_code == 404


async def test_a_case_is_cancelled_deleted_and_restored(site: sites.Site) -> None:
    """Open documents are cancelled; a restored case has its documents."""
    person, factory = await site.add_person(), site.functions.factory
    await factory.completed(person.case)
    await factory.queued(person.case)
    async with site.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto(f"/cases/{person.case}")
        statuses = page.get_by_role("list", name="Documents by status")
        await expect(statuses).to_contain_text("queued: 1")
        await page.get_by_role("button", name="Cancel open documents").click()
        await expect(page.locator("#notice")).to_contain_text("Cancelled: 1 document.")
        await expect(statuses).to_contain_text("cancelled: 1")
        await page.get_by_role("button", name="Delete").click()
        await expect(page.locator("#notice")).to_contain_text(
            "moved to the bin, along with 2 documents"
        )
        await page.goto("/cases")
        await expect(page.locator("#results")).to_contain_text("No cases yet")
        await page.get_by_label("Bin").check()
        await page.locator("#results a").click()
        await page.get_by_role("button", name="Restore").click()
        await expect(page.locator("#notice")).to_contain_text("restored, along with 2 documents")
        await expect(statuses).to_contain_text("completed: 1")


async def test_erasing_a_case_requires_its_name(site: sites.Site) -> None:
    """The page lists what will be erased; a wrong name erases nothing."""
    person, factory = await site.add_person(), site.functions.factory
    await factory.completed(person.case)
    async with site.browser(person) as page:
        await page.goto(f"/cases/{person.case}")
        name = await page.locator("h1").inner_text()
        await page.get_by_role("link", name="Erase permanently").click()
        await expect(page.locator("main")).to_contain_text("1 pages, including all recognised text")
        await expect(page.locator("main")).to_contain_text("1 files")
        await page.get_by_label("type the case name").fill("something else")
        await page.get_by_role("button", name="Erase permanently").click()
        await expect(page.locator("#notice")).to_contain_text("Nothing was erased")
        await page.get_by_label("type the case name").fill(name)
        await page.get_by_role("button", name="Erase permanently").click()
        await expect(page.locator("#notice")).to_contain_text("Erased: 1 document.")
        await page.goto("/audit")
        await expect(page.locator("#results")).to_contain_text("No entries yet")
    assert await site.functions.documents() == []


async def test_a_case_is_found_by_its_name(site: sites.Site) -> None:
    """The search runs while typing; counts link to the documents."""
    person, factory = await site.add_person(), site.functions.factory
    await factory.call("create_case", p_name="Land of Ada", p_owner=person.id)
    await factory.completed(person.case)
    await factory.dead_letter(person.case)
    async with site.browser(person) as page:
        await page.goto("/cases")
        row = page.locator("tbody tr").nth(1)
        await expect(row.locator("[data-label=Documents]")).to_have_text("2")
        await expect(row.locator("[data-label=Completed]")).to_have_text("1")
        await expect(row.locator("[data-label='Needs attention']")).to_have_text("1")
        await page.get_by_role("searchbox").fill("land OF")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await expect(page).to_have_url(re.compile("q=land"))
        await page.goto(f"/cases/{person.case}")
        await page.get_by_role("link", name="Documents", exact=True).last.click()
        await expect(page.locator("#results tbody tr")).to_have_count(2)


async def test_strangers_and_viewers_cannot_act(site: sites.Site) -> None:
    """Users without access get a 404, viewers a 403."""
    person, viewer, stranger = [await site.add_person() for _ in range(3)]
    case = await site.functions.factory.case(person.id, viewer=viewer.id)
    acts = {
        "share": {"email": viewer.email, "role": "editor"},
        "unshare": {"user_id": str(viewer.id)},
        "cancel": {}, "delete": {}, "restore": {},
        "erase": {"name": "anything"},
    }  # fmt: skip
    async with site.client(stranger) as client:
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
    async with site.client(viewer) as client:
        given = {"csrf": await csrf(client)}
        name = re.findall(r'<h1 class="name">(.*?)</h1>', (await client.get(f"/cases/{case}")).text)
        acts["erase"] = {"name": name[0]}
        for act, form in acts.items():
            answer = await client.post(f"/cases/{case}/{act}", data=given | form)
            assert answer.status_code == 403, act
        assert (await client.get(f"/cases/{case}/erase")).status_code == 403
        assert (await client.post(f"/cases/{case}/nonsense", data=given)).status_code == 404


async def test_the_list_of_cases_is_paged(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case is on one page; invalid URLs lead to error pages."""
    monkeypatch.setattr(cases, "ROWS", 2)
    person = await site.add_person()
    created = [person.case, *[await site.functions.factory.case(person.id) for _ in range(4)]]
    seen: list[str] = []
    async with site.client(person) as client:
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
        assert "Enter a name for the case" in (await client.get(empty.headers["location"])).text
    assert seen == [str(case) for case in reversed(created)]
