"""Tasks: what waits for HAC, who has it, and where it gets done."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from playwright.async_api import expect

from pagewarden.dashboard.pages import tasks
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    import httpx
    import pytest

    from tests.dashboard import site as sites


def _titles(answer: httpx.Response) -> list[str]:
    return re.findall(r"<h2>(?:<a [^>]*>)?([^<]+)", answer.text)


async def test_a_task_is_created_assigned_and_done(site: sites.Site) -> None:
    """By buttons; the audit log has every step."""
    person, other = await site.add_person(admin=True), await site.add_person(admin=True)
    async with site.browser(person) as page:
        await page.goto("/")
        await page.locator("#go-open-tasks").click()
        await expect(page.get_by_text("No open tasks.")).to_be_visible()
        await page.get_by_text("New task").click()
        await page.get_by_label("Title").fill("Call the archive")
        await page.get_by_label("Description").fill("They have the original.")
        await page.get_by_role("button", name="Create task").click()
        card = page.locator(".cards > li")
        await expect(card).to_contain_text("Unassigned.")
        await expect(card).to_contain_text("They have the original.")

        await page.get_by_role("button", name="Take: Call the archive").click()
        await expect(card).to_contain_text("Assigned to you.")
        await page.get_by_role("button", name="Release").click()
        await expect(card).to_contain_text("Unassigned.")
        await card.get_by_text("Assignee and priority").click()
        await card.locator("select[name=to]").select_option(label=other.email)
        await page.get_by_role("button", name="Assign: Call the archive").click()
        await expect(card).to_contain_text(f"Assigned to {other.email}.")
        await card.get_by_text("Assignee and priority").click()
        await card.locator("select[name=priority]").select_option("urgent")
        await page.get_by_role("button", name="Change priority").click()
        await expect(card.locator(".priority-urgent")).to_be_visible()

        await page.wait_for_load_state()  # with its scripts
        await page.locator("select[name=whose]").select_option("mine")
        await expect(page.get_by_text("No matching tasks.")).to_be_visible()
        await page.locator("select[name=whose]").select_option("all")
        await page.get_by_role("button", name="Done").click()
        await expect(page.get_by_text("No open tasks.")).to_be_visible()
    found = await site.functions.factory.conn.execute(
        "select action_type from hac_logs where user_id = %s order by created_at", (person.id,)
    )
    steps = ["created", "assigned", "given_back", "assigned", "priority", "done"]
    assert [kind for (kind,) in await found.fetchall()] == [f"task_{step}" for step in steps]


async def test_tasks_link_to_the_page_where_they_are_done(site: sites.Site) -> None:
    """They end automatically once the work is done."""
    person, factory = await site.add_person(admin=True), site.functions.factory
    letter = await factory.dead_letter(person.case)
    typed = await factory.dead_letter(person.case)
    await factory.call("resolve_dead_letter", p_dlq_id=typed.dlq_id, p_action="manual")
    await factory.queued(person.case, lane=None)
    claim = await factory.claimed(person.case, lane="check")
    await factory.call(
        "release_documents",
        p_documents=_json(claim.document_id, claim.lock_token), p_reason="away", p_outage=True,
    )  # fmt: skip
    async with site.browser(person) as page:
        await page.goto("/tasks")
        places_ = page.locator(".cards a.button")
        await expect(places_).to_have_count(4)
        shown = [await each.get_attribute("href") for each in await places_.all()]
        assert shown == [
            "/lanes",
            f"/dead-letters/{letter.dlq_id}",
            f"/dead-letters/{typed.dlq_id}/type",
            "/routing",
        ]
        await expect(page.get_by_role("button", name="Done")).to_have_count(0)
        await page.get_by_role("link", name="Decide").click()
        await page.get_by_role("button", name="Requeue").click()
        await page.goto("/tasks?kind=dead_letter")
        await expect(page.get_by_text("No matching tasks.")).to_be_visible()
        site.problems.clear()  # there is no file to draw


def _json(document: uuid.UUID, token: uuid.UUID) -> str:
    return f'[{{"document_id": "{document}", "lock_token": "{token}"}}]'


async def test_concurrent_assignments_name_the_first_user(site: sites.Site) -> None:
    """Ended tasks name who ended them; automatic tasks cannot be ended by hand."""
    first, second = await site.add_person(admin=True), await site.add_person(admin=True)
    factory = site.functions.factory
    task = await factory.task()
    await factory.dead_letter(first.case)
    found = await factory.conn.execute("select id from tasks where kind = 'dead_letter'")
    (of_letter,) = await found.fetchone() or ()

    async def post(client: httpx.AsyncClient, path: str, **fields: str) -> str:
        data = {"csrf": await csrf(client)} | fields
        answer = await client.post(f"/tasks/{path}", data=data)
        assert answer.status_code == 303, answer.text
        return (await client.get(answer.headers["location"])).text

    async with site.client(first) as mine, site.client(second) as theirs:
        assert "Assigned to you." in await post(mine, f"{task}/assign", to=str(first.id))
        notice = await post(theirs, f"{task}/assign", to=str(second.id))
        assert f"the task has been assigned to {first.email} since 20" in notice
        taken = await post(theirs, f"{task}/assign", to=str(second.id), had=str(first.id))
        assert "Assigned to you." in taken
        assert "cancelled" in await post(mine, f"{task}/end", ending="cancelled")
        for act, fields in (
            ("end", {"ending": "done"}),
            ("priority", {"priority": "low"}),
            ("assign", {"to": str(second.id), "had": str(second.id)}),
        ):
            notice = await post(theirs, f"{task}/{act}", **fields)
            assert f"the task was already cancelled by {first.email} at 20" in notice
        assert "is closed automatically" in await post(mine, f"{of_letter}/end", ending="done")
        assert "there is no such task" in await post(mine, f"{uuid.uuid4()}/end", ending="done")
        assert "enter a title" in await post(mine, "../tasks", title="  ")


async def test_tasks_are_sorted_filtered_and_paged(
    site: sites.Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most urgent first, then oldest; only for HAC; markup is escaped."""
    monkeypatch.setattr(tasks, "ROWS", 2)
    person, admin = await site.add_person(), await site.add_person(admin=True)
    factory = site.functions.factory
    for title, params in (
        ("low", {"p_priority": "low"}),
        ("first", {}),
        ("second", {}),
        ("mine", {"p_assigned_to": admin.id}),
        (EVIL, {"p_priority": "urgent"}),
    ):
        await factory.call("create_task", p_title=title, p_description=EVIL, **params)
    await factory.queued(person.case, lane=None)
    seen: list[str] = []
    async with site.client(admin) as client, site.client(person) as other:
        path: str | None = "/tasks"
        while path:
            answer = await client.get(path)
            assert "<script>document" not in answer.text
            seen += _titles(answer)
            more = re.search(r'class="more" href="([^"]+)"', answer.text)
            path = more[1].replace("&amp;", "&") if more else None
        assert seen[1:4] == ["first", "second", "mine"]
        assert (len(seen), seen[-1]) == (6, "low")
        assert "&lt;script&gt;" in seen[0]
        monkeypatch.setattr(tasks, "ROWS", 50)
        for query, count in (
            ("whose=mine", 1), ("whose=unassigned", 5), ("kind=routing", 1), ("priority=low", 1),
            ("kind=other&whose=mine&priority=normal", 1), ("kind=outage", 0),
        ):  # fmt: skip
            assert len(_titles(await client.get(f"/tasks?{query}"))) == count, query
        for query in ("whose=x", "kind=x", "priority=x", "after=x&after_urgency=1", "whose="):
            assert (await client.get(f"/tasks?{query}")).status_code in {200, 400}, query
        assert (await other.get("/tasks")).status_code == 403
        form = {"csrf": await csrf(other), "title": "x"}
        assert (await other.post("/tasks", data=form)).status_code == 403


async def test_every_kind_of_task_has_a_link(site: sites.Site) -> None:
    """Except those that users create."""
    admin, factory = await site.add_person(admin=True), site.functions.factory
    found = await factory.conn.execute(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'tasks_kind_is_known'"
    )
    (rule,) = await found.fetchone() or ("",)
    kinds = re.findall(r"'(\w+)'", rule)
    assert set(kinds) == {*tasks.KINDS}
    for kind in kinds:
        query = "insert into tasks (kind, title) values (%s, %s)"
        await factory.conn.execute(query, (kind, f"do {kind}"))

    async with site.client(admin) as client:
        shown = await client.get("/tasks")

    assert sorted(_titles(shown)) == sorted(f"do {kind}" for kind in kinds)
    assert 'href="/alerts"' in shown.text
