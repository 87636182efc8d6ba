"""People: roles given and taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.dashboard.pages import people
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    import pytest

    from tests.dashboard import site as sites


async def test_the_role_is_granted_and_revoked(site: sites.Site) -> None:
    """With immediate effect, and entries in the audit log."""
    admin, other = await site.add_person(admin=True), await site.add_person()
    async with site.browser(admin) as page, site.client(other) as theirs:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto("/people")
        await page.get_by_role("searchbox").fill(other.email[:6])
        row = page.locator("tbody tr")
        await expect(row).to_have_count(1)
        await expect(row.locator("[data-label=Cases]")).to_have_text("1")
        assert (await theirs.get("/people")).status_code == 403
        await page.get_by_role("button", name=f"Make admin: {other.email}").click()
        await expect(page.locator("#notice")).to_contain_text(
            f"{other.email} now has the admin role"
        )
        assert (await theirs.get("/people")).status_code == 200
        await page.get_by_role("button", name=f"Revoke admin: {other.email}").click()
        await expect(page.locator("#notice")).to_contain_text("no longer has the admin role")
        assert (await theirs.get("/people")).status_code == 403
        await page.goto("/audit?action=role_taken")
        await expect(page.locator("tbody tr")).to_contain_text(admin.email)
        await expect(page.locator("tbody tr")).to_contain_text(f"({other.email})")


async def test_users_cannot_revoke_their_own_role(site: sites.Site) -> None:
    """There is no button for it, and the database rejects it."""
    admin = await site.add_person(admin=True)
    async with site.client(admin) as client:
        assert f"Revoke admin: {admin.email}" not in (await client.get("/people")).text
        for message in ("last administrator", "ask another administrator"):
            form = {"csrf": await csrf(client), "email": admin.email}
            answer = await client.post(f"/people/{admin.id}/take", data=form)
            assert message in (await client.get(answer.headers["location"])).text
            await site.add_person(admin=True)
        assert (await client.get("/people")).status_code == 200


async def test_the_list_of_people_is_paged(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each user is on one page; the filter selects HAC."""
    monkeypatch.setattr(people, "ROWS", 2)
    admin, others = await site.add_person(admin=True), [await site.add_person() for _ in range(4)]
    async with site.client(admin) as client:
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
