"""Stuck documents: found, explained, given back."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, cast

import pytest
from playwright.async_api import expect

from pagewarden.dashboard.pages import stuck
from tests.dashboard.test_guards import EVIL
from tests.dashboard.test_login import csrf

if TYPE_CHECKING:
    from pagewarden.database import rows
    from tests.dashboard import site as sites
    from tests.database import factories

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def _at(minutes: float) -> str:
    return (NOW + dt.timedelta(minutes=minutes)).isoformat()


ALIVE: dict[str, Any] = {
    "locked_by": "reader-7",
    "held_seconds": 900.0,
    "silent_seconds": 3.0,
    "lock_expires_at": _at(0.3),
    "attempt_deadline": _at(5),
    "swept_at": _at(-0.05),
    "sweep_due_at": _at(0.3),
    "retry_count": 0,
    "max_attempts": 3,
    "rescues": 0,
    "max_rescues": 3,
    "new_pages": 0,
}
SILENT = {"silent_seconds": 600.0, "lock_expires_at": _at(-9), "sweep_due_at": _at(-9)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["reader-7 is alive (last seen 3.0 s ago)", "has held the claim for 15 min"]),
        ({}, ["will reclaim the document in 5 min: it counts as failure 1 of 3 and is retried"]),
        ({"retry_count": 2}, ["failure 3 of 3 and moves to dead letters"]),
        ({}, ["If released now, it returns to the queue as rescue 1 of 3."]),
        ({"rescues": 3}, ["it moves to dead letters, because all 3 rescues have been used"]),
        ({"rescues": 3, "new_pages": 1}, ["with its new pages, and no rescue is counted"]),
        (
            SILENT,
            ["last seen 10 min ago; its lock has expired", "on its next run: it returns"],
        ),
        (SILENT | {"swept_at": _at(-10)}, ["last ran 10 min ago: check that pagewarden up"]),
        (SILENT | {"swept_at": None}, ["it has never run"]),
        (
            {"silent_seconds": 400.0, "lock_expires_at": _at(4), "sweep_due_at": _at(4)},
            ["so it may still be reading", "will reclaim the document in 4 min"],
        ),
        ({"attempt_deadline": _at(-1)}, ["on its next run: it counts as failure 1"]),
        (
            {"locked_by": None, "silent_seconds": None, "attempt_deadline": None},
            ["no worker has claimed it", "as rescue 1 of 3"],
        ),
    ],
)
def test_stuck_documents_are_explained(changes: dict[str, Any], expected: list[str]) -> None:
    """Why a document is stuck, what the sweep will do and when, and what a release does."""
    verdict = stuck.judge(cast("rows.StuckDocument", ALIVE | changes), NOW)
    text = f"{verdict.reason} {verdict.if_kept} {verdict.if_released}"
    assert [part for part in expected if part not in text] == [], text


async def _held(site: sites.Site, person: sites.Person, minutes: int) -> factories.Claim:
    """Add a worker that was last seen long ago."""
    claim = await site.functions.factory.claimed(person.case, worker="reader-7")
    await site.functions.factory.conn.execute(
        "update documents set claimed_at = claimed_at - %(age)s, locked_at = locked_at - %(age)s,"
        " lock_expires_at = lock_expires_at + interval '1 hour' where id = %(id)s",
        {"age": dt.timedelta(minutes=minutes), "id": claim.document_id},
    )
    return claim


async def _statuses(site: sites.Site, *claims: factories.Claim) -> list[str]:
    documents = {each["id"]: each for each in await site.functions.documents()}
    return [documents[str(claim.document_id)]["ocr_status"] for claim in claims]


async def test_stuck_documents_are_released(site: sites.Site) -> None:
    """One, then all others, each after confirmation."""
    person = await site.add_person(admin=True)
    claims = [await _held(site, person, minutes) for minutes in (30, 20, 15)]
    healthy = await site.functions.factory.claimed(person.case)
    answers = [False, True, True]
    async with site.browser(person) as page:
        await page.goto("/")
        page.on("dialog", lambda d: d.accept() if answers.pop(0) else d.dismiss())
        await page.locator("#go-stuck").click()
        cards = page.locator(".cards > li")
        await expect(cards).to_have_count(3)
        await expect(cards.first).to_contain_text("reader-7")
        await expect(cards.first).to_contain_text("(30 min)")
        await expect(cards.first.locator(".why")).to_contain_text("may still be reading")
        first = cards.first.get_by_role("button")
        await first.click()
        assert await _statuses(site, *claims) == ["processing"] * 3
        await first.click()
        await expect(page.locator("#notice")).to_contain_text("Released: 1 document.")
        assert await _statuses(site, *claims) == ["queued", "processing", "processing"]
        await page.get_by_role("button", name="Release all 2").click()
        await expect(page.get_by_text("No stuck documents.")).to_be_visible()
    assert await _statuses(site, *claims, healthy) == ["queued"] * 3 + ["processing"]


async def test_documents_claimed_again_are_skipped(site: sites.Site) -> None:
    """An outdated page takes no document from its new worker."""
    person, other = await site.add_person(admin=True), await site.add_person(admin=True)
    claims = [await _held(site, person, 20) for _ in range(3)]
    factory = site.functions.factory
    await factory.conn.execute(
        "update documents set rescues = 3, attempts = 4 where id = %s", (claims[2].document_id,)
    )
    async with site.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto("/stuck")
        async with site.client(other) as client:
            seen = (await client.get("/stuck")).text
            for claim in claims[:2]:
                start = seen.index(f'value="{claim.document_id} ')
                value = seen[start:].partition('"')[2].partition('"')[0]
                form = {"csrf": await csrf(client), "claim": value}
                await client.post("/stuck/give-back", data=form)
        await factory.call(
            "acquire_document_lock", p_document_id=claims[0].document_id, p_worker_id="reader-9"
        )
        await page.get_by_role("button", name="Release all 3").click()
        notice = page.locator("#notice")
        await expect(notice).to_contain_text("Released: 1 document. Moved to dead letters")
        await expect(notice).to_contain_text("Skipped 2:")
        await expect(notice).to_contain_text("reader-9 has it since 20")
        await expect(notice).to_contain_text(
            "its status is now queued; last act: recover stuck, by"
        )
        await expect(notice).to_contain_text(other.email)
    assert await _statuses(site, *claims) == ["processing", "queued", "dead_letter"]


async def test_stuck_documents_are_for_hac(site: sites.Site) -> None:
    """Invalid claims are rejected; markup in names is escaped."""
    person, admin = await site.add_person(), await site.add_person(admin=True)
    claim = await _held(site, person, 20)
    await site.functions.factory.conn.execute(
        "update documents set name = %s, locked_by = %s", (EVIL, EVIL)
    )
    async with site.client(person) as client, site.client(admin) as hac:
        form = {"csrf": await csrf(client), "claim": str(claim.document_id)}
        assert (await client.get("/stuck")).status_code == 403
        assert (await client.post("/stuck/give-back", data=form)).status_code == 403
        shown = (await hac.get("/stuck")).text
        assert "<script>document" not in shown
        assert "&lt;script&gt;document" in shown
        own = {"csrf": await csrf(hac)}
        assert (await hac.post("/stuck/give-back", data=own)).status_code == 303
        for claimed in ("", "x", f"{claim.document_id} x"):
            answer = await hac.post("/stuck/give-back", data=own | {"claim": claimed})
            assert answer.status_code in {303, 400}, claimed
    assert await _statuses(site, claim) == ["processing"]
