"""People: roles given and taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from dashboard.pages import people
from tests.dashboard.test_doors import csrf

if TYPE_CHECKING:
    import pytest

    from tests.dashboard import place as places


async def test_a_role_is_given_and_taken(place: places.Place) -> None:
    """It counts at once, and the log names who, whom and what."""
    admin, other = await place.person(admin=True), await place.person()
    async with place.browser(admin) as page, place.visitor(other) as theirs:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto("/people")
        await page.get_by_role("searchbox").fill(other.email[:6])
        row = page.locator("tbody tr")
        await expect(row).to_have_count(1)
        await expect(row.locator("[data-label=Cases]")).to_have_text("1")
        assert (await theirs.get("/people")).status_code == 403
        await page.get_by_role("button", name=f"Make HAC: {other.email}").click()
        await expect(page.locator("#notice")).to_contain_text(f"{other.email} is one of HAC now")
        assert (await theirs.get("/people")).status_code == 200
        await page.get_by_role("button", name=f"Take the role: {other.email}").click()
        await expect(page.locator("#notice")).to_contain_text("not one of HAC any more")
        assert (await theirs.get("/people")).status_code == 403
        await page.goto("/audit?action=role_taken")
        await expect(page.locator("tbody tr")).to_contain_text(admin.email)
        await expect(page.locator("tbody tr")).to_contain_text(f"({other.email})")


async def test_nobody_takes_their_own_role(place: places.Place) -> None:
    """There is no button for it, and whoever sends the form is told to ask another."""
    admin = await place.person(admin=True)
    async with place.visitor(admin) as client:
        assert f"Take the role: {admin.email}" not in (await client.get("/people")).text
        for said in ("last administrator", "ask another administrator"):
            form = {"csrf": await csrf(client), "email": admin.email}
            answer = await client.post(f"/people/{admin.id}/take", data=form)
            assert said in (await client.get(answer.headers["location"])).text
            await place.person(admin=True)
        assert (await client.get("/people")).status_code == 200


async def test_the_list_of_people_goes_on_where_it_ended(
    place: places.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody is on one page; the filter tells HAC from the others."""
    monkeypatch.setattr(people, "ROWS", 2)
    admin, others = await place.person(admin=True), [await place.person() for _ in range(4)]
    async with place.visitor(admin) as client:
        for query, wanted in (
            ("", {admin.email, *(person.email for person in others)}),
            ("?role=admin", {admin.email}),
            ("?role=none", {person.email for person in others}),
        ):
            seen: list[str] = []
            path: str | None = f"/people{query}"
            while path:
                answer = await client.get(path)
                seen += re.findall(r'<th scope="row">(\S+@\S+?)[ <]', answer.text)
                found = re.search(r'class="more" href="([^"]+)"', answer.text)
                path = found[1].replace("&amp;", "&") if found else None
            assert seen == sorted(wanted)
        for query in ("q=%00", "after_id=x", "role=nope", "after=x"):
            assert (await client.get(f"/people?{query}")).status_code in {200, 400}
