"""No case stands in the way of others, however much it uploads."""

from __future__ import annotations

import collections
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid

    from tests.support import databases

_numbers = itertools.count(1)

# The clock of a lane is set every eighth turn, so a newcomer may be that much ahead.
CLOCK_STEP = 8


@dataclass(frozen=True, slots=True)
class Queue:
    """Uploads and claims, and who was served how often."""

    factory: factories.Factory
    served: collections.Counter[str] = field(default_factory=collections.Counter)

    async def upload(
        self, count: int, case: uuid.UUID | None = None, *, priority: int = 0
    ) -> uuid.UUID:
        """Upload so many documents into a case, by default a new one."""
        case = case or await self.factory.case()
        names = [{"name": f"file-{next(_numbers)}"} for _ in range(count)]
        added = await factories.call(
            self.factory.conn,
            "add_documents",
            p_case_id=case,
            p_documents=json.dumps(names),
            p_lane="image",
            p_priority=priority,
        )
        assert len(added) == count
        return case

    async def claim(self, count: int, *, at_once: int = 10) -> collections.Counter[str]:
        """Claim so many documents, and count whose they were."""
        round_ = collections.Counter[str]()
        for _ in range(count // at_once):
            claimed = await factories.call(
                self.factory.conn, "claim_documents", p_worker_id="worker-1", p_limit=at_once
            )
            assert len(claimed) == at_once
            round_.update(row["case_id"] for row in claimed)
        self.served.update(round_)
        return round_


async def _queue(database: databases.Database) -> Queue:
    return Queue(await factories.Factory.of(database))


async def test_nine_cases_are_served_as_if_the_tenth_had_not_uploaded_10_000(
    database: databases.Database,
) -> None:
    """Each of ten gets every tenth claim until the nine small ones are through."""
    queue = await _queue(database)
    big = await queue.upload(2_500)
    for _ in range(3):
        await queue.upload(2_500, big)
    small = [await queue.upload(20) for _ in range(9)]
    for turn in range(1, 21):
        await queue.claim(10)
        shares = {case: queue.served[str(case)] for case in [big, *small]}
        assert set(shares.values()) == {turn}, shares
    assert await queue.claim(50) == {str(big): 50}


async def test_single_claims_take_turns_too(database: databases.Database) -> None:
    """Workers that take one document at a time serve everybody alike after every round."""
    queue = await _queue(database)
    cases = [await queue.upload(count) for count in (200, 30, 20, 10)]
    for turn in range(1, 11):
        await queue.claim(4, at_once=1)
        assert [queue.served[str(case)] for case in cases] == [turn] * 4


async def test_latecomers_start_level(database: databases.Database) -> None:
    """Who comes while a big case is being served waits for nobody and overtakes nobody."""
    queue = await _queue(database)
    big = await queue.upload(2_000)
    await queue.claim(500, at_once=50)
    late = [await queue.upload(20) for _ in range(9)]
    for turn in range(1, 21):
        await queue.claim(10)
        for case in late:
            assert turn - 1 <= queue.served[str(case)] <= turn + CLOCK_STEP
    await queue.claim(10)
    assert all(queue.served[str(case)] == 20 for case in late)
    assert queue.served[str(big)] == 530


async def test_an_idle_case_saves_nothing_up(database: databases.Database) -> None:
    """A case that uploaded nothing for long shares evenly when it comes back."""
    queue = await _queue(database)
    idle = await queue.upload(1)
    busy = await queue.upload(500)
    await queue.claim(300)
    await queue.upload(100, idle)
    shares = await queue.claim(100)
    assert abs(shares[str(idle)] - shares[str(busy)]) <= CLOCK_STEP + 1


async def test_a_case_that_was_cancelled_begins_anew(database: databases.Database) -> None:
    """Turns of documents that were never read are not held against their case."""
    queue = await _queue(database)
    rash = await queue.upload(2_000)
    busy = await queue.upload(300)
    await queue.claim(20)
    await queue.factory.call("cancel_case", p_case_id=rash)
    await queue.upload(50, rash)
    shares = await queue.claim(50)
    assert abs(shares[str(rash)] - shares[str(busy)]) <= CLOCK_STEP + 1


async def test_urgent_documents_go_first_and_take_turns_among_themselves(
    database: databases.Database,
) -> None:
    """Priority comes before fairness, and each priority has its own."""
    queue = await _queue(database)
    usual = await queue.upload(200)
    first = await queue.upload(40, priority=5)
    second = await queue.upload(40, priority=5)
    top = await queue.upload(10, priority=9)
    assert await queue.claim(10) == {str(top): 10}
    assert await queue.claim(40) == {str(first): 20, str(second): 20}
    assert await queue.claim(40) == {str(first): 20, str(second): 20}
    assert await queue.claim(20) == {str(usual): 20}


async def test_urgent_documents_that_never_fill_a_batch_still_move_their_clock(
    database: databases.Database,
) -> None:
    """Who was urgent often does not have to wait for who is urgent for the first time."""
    queue = await _queue(database)
    await queue.upload(500)
    often = await queue.upload(10, priority=5)
    for _ in range(5):
        await queue.claim(20, at_once=20)
        await queue.upload(10, often, priority=5)
    new = await queue.upload(40, priority=5)
    await queue.upload(40, often, priority=5)
    shares = await queue.claim(40)
    assert abs(shares[str(often)] - shares[str(new)]) <= 2 * CLOCK_STEP


async def test_a_list_sent_twice_takes_its_turns_once(database: databases.Database) -> None:
    """Only new names get turns, one after the other, so nobody falls behind by trying again."""
    factory = await factories.Factory.of(database)
    upload = {"p_case_id": await factory.case(), "p_lane": "image"}
    for count in (50, 50, 53):
        names = json.dumps([{"name": f"file-{number}"} for number in range(count)])
        await factories.call(factory.conn, "add_documents", **upload, p_documents=names)
    conn = await database.connect()
    turns = await queries.rows(conn, "select turn from public.documents order by turn")
    assert [row["turn"] for row in turns] == list(range(53))
    assert (await queries.one(conn, "select next_turn from private.fair_turns"))["next_turn"] == 53


async def test_what_waits_for_a_file_or_a_person_takes_no_turn_yet(
    database: databases.Database,
) -> None:
    """Turns are given when documents are queued, or the patient would be served late."""
    factory = await factories.Factory.of(database)
    case = await factory.case()
    for _ in range(5):
        await factory.awaiting_file(case)
        await factory.queued(case, lane=None)
    await factory.queued(case, lane="image")
    taken = await queries.rows(await database.connect(), "select * from private.fair_turns")
    assert [(row["lane"], row["next_turn"]) for row in taken] == [("image", 1)]
