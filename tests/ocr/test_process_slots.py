"""Process slots and page plans."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pagewarden.ocr import child_pool, page_pool


async def test_helper_yields_to_a_first_worker() -> None:
    """A helper must release its slot if a document has no process."""
    places = child_pool.ProcessSlots(1)
    async with places.hold(child_pool.SlotPriority.HELPER) as helper:
        assert not helper.must_release
        waiting = asyncio.create_task(_take(places, child_pool.SlotPriority.FIRST))
        await asyncio.sleep(0)
        assert helper.must_release
    await waiting


async def test_first_worker_keeps_its_slot_for_its_time() -> None:
    """It must release its slot after its time if another first worker waits, not for helpers."""
    places = child_pool.ProcessSlots(1)
    async with places.hold(child_pool.SlotPriority.FIRST) as first:
        late = child_pool.Slot(places, child_pool.SlotPriority.FIRST, started=float("-inf"))
        helper = asyncio.create_task(_take(places, child_pool.SlotPriority.HELPER))
        await asyncio.sleep(0)
        assert not late.must_release
        other = asyncio.create_task(_take(places, child_pool.SlotPriority.FIRST))
        await asyncio.sleep(0)
        assert late.must_release
        assert not first.must_release
    await asyncio.gather(helper, other)


async def test_slot_is_not_lost_if_its_next_holder_is_cancelled() -> None:
    """If a worker is cancelled while it waits or gets the slot, the next one gets it."""
    places = child_pool.ProcessSlots(1)
    async with places.hold(child_pool.SlotPriority.FIRST):
        gone = [asyncio.create_task(_take(places, child_pool.SlotPriority.FIRST)) for _ in range(2)]
        await asyncio.sleep(0)
        gone[0].cancel()
    gone[1].cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    async with asyncio.timeout(1):
        await _take(places, child_pool.SlotPriority.HELPER)


async def _take(places: child_pool.ProcessSlots, priority: child_pool.SlotPriority) -> None:
    async with places.hold(priority):
        pass


@given(
    count=st.integers(0, 20),
    ahead=st.integers(1, 5),
    moves=st.lists(st.sampled_from(["fresh", "used", "again", "take"]), max_size=100),
)
def test_every_page_is_handed_out(count: int, ahead: int, moves: list[str]) -> None:
    """Pages are handed out in order, none twice except retries, none too early."""
    plan = page_pool.PagePlan(range(1, count + 1), ahead)
    out: list[int] = []
    failed: list[int] = []
    taken = 0
    for move in moves:
        if move == "take" and taken < len(out):
            plan.mark_taken()
            taken += 1
        elif move == "again" and out:
            plan.retry(out[-1])
            failed.append(out[-1])
        elif (number := plan.next(fresh=move == "fresh")) in failed:
            assert move == "fresh"
            failed.remove(number)
        elif number is not None:
            out.append(number)
        assert plan.has_page == bool(failed or len(out) < min(count, taken + ahead))
        assert len(out) <= taken + ahead

    assert out == list(range(1, len(out) + 1))
