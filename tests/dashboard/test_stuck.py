"""Stuck documents: found, explained, given back."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, cast

import pytest
from playwright.async_api import expect

from dashboard.pages import stuck
from tests.dashboard.test_doors import csrf
from tests.dashboard.test_guards import EVIL

if TYPE_CHECKING:
    from pagewarden.database import rows
    from tests.dashboard import place as places
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
}
SILENT = {"silent_seconds": 600.0, "lock_expires_at": _at(-9), "sweep_due_at": _at(-9)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ["reader-7 is alive (heard of 3.0 s ago)", "reading it for 15 min"]),
        ({}, ["takes it back in 5 min: it counts as failure 1 of 3 and is tried again"]),
        ({"retry_count": 2}, ["failure 3 of 3 and goes to the dead letters"]),
        ({}, ["Given back now, it goes back to the queue, as rescue 1 of 3."]),
        ({"rescues": 3}, ["it goes to the dead letters, because 3 rescues are used up"]),
        (
            SILENT,
            ["last heard of 10 min ago; its lock has ended", "with its next run: it goes back"],
        ),
        (SILENT | {"swept_at": _at(-10)}, ["last ran 10 min ago: is pagewarden up"]),
        (SILENT | {"swept_at": None}, ["it has never run"]),
        (
            {"silent_seconds": 400.0, "lock_expires_at": _at(4), "sweep_due_at": _at(4)},
            ["nobody knows whether it still reads", "takes it back in 4 min"],
        ),
        ({"attempt_deadline": _at(-1)}, ["with its next run: it counts as failure 1"]),
        (
            {"locked_by": None, "silent_seconds": None, "attempt_deadline": None},
            ["no worker has it", "as rescue 1 of 3"],
        ),
    ],
)
def test_one_sentence_says_why(changes: dict[str, Any], told: list[str]) -> None:
    """Why it counts as stuck, what the sweep will do and when, and what giving back does."""
    verdict = stuck.judge(cast("rows.StuckDocument", ALIVE | changes), NOW)
    said = f"{verdict.why} {verdict.by_itself} {verdict.by_hand}"
    assert [each for each in told if each not in said] == [], said


async def _held(place: places.Place, person: places.Person, minutes: int) -> factories.Claim:
    """Have a worker that was last heard of long ago."""
    claim = await place.functions.factory.claimed(person.case, worker="reader-7")
    await place.functions.factory.conn.execute(
        "update documents set claimed_at = claimed_at - %(age)s, locked_at = locked_at - %(age)s,"
        " lock_expires_at = lock_expires_at + interval '1 hour' where id = %(id)s",
        {"age": dt.timedelta(minutes=minutes), "id": claim.document_id},
    )
    return claim


async def _statuses(place: places.Place, *claims: factories.Claim) -> list[str]:
    documents = {each["id"]: each for each in await place.functions.documents()}
    return [documents[str(claim.document_id)]["ocr_status"] for claim in claims]


async def test_stuck_documents_are_given_back(place: places.Place) -> None:
    """One, then all the others; each is asked about, and nothing is lost by saying no."""
    person = await place.person(admin=True)
    claims = [await _held(place, person, minutes) for minutes in (30, 20, 15)]
    healthy = await place.functions.factory.claimed(person.case)
    answers = [False, True, True]
    async with place.browser(person) as page:
        await page.goto("/")
        page.on("dialog", lambda d: d.accept() if answers.pop(0) else d.dismiss())
        await page.locator("#go-stuck").click()
        cards = page.locator(".cards > li")
        await expect(cards).to_have_count(3)
        await expect(cards.first).to_contain_text("reader-7")
        await expect(cards.first).to_contain_text("(30 min)")
        await expect(cards.first.locator(".why")).to_contain_text("nobody knows whether")
        first = cards.first.get_by_role("button")
        await first.click()
        assert await _statuses(place, *claims) == ["processing"] * 3
        await first.click()
        await expect(page.locator("#notice")).to_contain_text("Given back: 1 document.")
        assert await _statuses(place, *claims) == ["queued", "processing", "processing"]
        await page.get_by_role("button", name="Give back all 2").click()
        await expect(page.get_by_text("Nothing is stuck.")).to_be_visible()
    assert await _statuses(place, *claims, healthy) == ["queued"] * 3 + ["processing"]


async def test_a_document_that_changed_hands_is_left_alone(place: places.Place) -> None:
    """The one who looks at an old page robs no worker, and is told who has it now."""
    person, other = await place.person(admin=True), await place.person(admin=True)
    claims = [await _held(place, person, 20) for _ in range(3)]
    factory = place.functions.factory
    await factory.conn.execute(
        "update documents set rescues = 3, attempts = 4 where id = %s", (claims[2].document_id,)
    )
    async with place.browser(person) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await page.goto("/stuck")
        async with place.visitor(other) as client:
            seen = (await client.get("/stuck")).text
            for claim in claims[:2]:
                start = seen.index(f'value="{claim.document_id} ')
                value = seen[start:].partition('"')[2].partition('"')[0]
                form = {"csrf": await csrf(client), "claim": value}
                await client.post("/stuck/give-back", data=form)
        await factory.call(
            "acquire_document_lock", p_document_id=claims[0].document_id, p_worker_id="reader-9"
        )
        await page.get_by_role("button", name="Give back all 3").click()
        said = page.locator("#notice")
        await expect(said).to_contain_text("Given back: 1 document. Now among the dead letters")
        await expect(said).to_contain_text("Skipped 2:")
        await expect(said).to_contain_text("reader-9 has it since 20")
        await expect(said).to_contain_text("it is queued now; last act: recover stuck, by")
        await expect(said).to_contain_text(other.email)
    assert await _statuses(place, *claims) == ["processing", "queued", "dead_letter"]


async def test_stuck_documents_are_for_hac_and_run_nothing(place: places.Place) -> None:
    """Others are refused, senseless claims too; names of files and workers are text."""
    person, admin = await place.person(), await place.person(admin=True)
    claim = await _held(place, person, 20)
    await place.functions.factory.conn.execute(
        "update documents set name = %s, locked_by = %s", (EVIL, EVIL)
    )
    async with place.visitor(person) as client, place.visitor(admin) as hac:
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
    assert await _statuses(place, claim) == ["processing"]
