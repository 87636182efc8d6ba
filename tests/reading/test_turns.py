"""Whose turn it is, and which page is next."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pagewarden.reading import agenda, turns


async def test_a_helper_makes_room_for_a_first_lane() -> None:
    """Who only helps goes as soon as a document has no process at all."""
    places = turns.Turns(1)
    async with places.taken(turns.Rank.HELPER) as helper:
        assert not helper.is_over
        waiting = asyncio.create_task(_take(places, turns.Rank.FIRST))
        await asyncio.sleep(0)
        assert helper.is_over
    await waiting


async def test_a_first_lane_has_its_time() -> None:
    """It goes when its time is up and somebody waits, but not for helpers."""
    places = turns.Turns(1)
    async with places.taken(turns.Rank.FIRST) as first:
        late = turns.Turn(places, turns.Rank.FIRST, started=float("-inf"))
        helper = asyncio.create_task(_take(places, turns.Rank.HELPER))
        await asyncio.sleep(0)
        assert not late.is_over
        other = asyncio.create_task(_take(places, turns.Rank.FIRST))
        await asyncio.sleep(0)
        assert late.is_over
        assert not first.is_over
    await asyncio.gather(helper, other)


async def test_a_place_is_not_lost_with_who_was_to_have_it() -> None:
    """Cancelled while waiting, or at the very moment it is its turn: others go on."""
    places = turns.Turns(1)
    async with places.taken(turns.Rank.FIRST):
        gone = [asyncio.create_task(_take(places, turns.Rank.FIRST)) for _ in range(2)]
        await asyncio.sleep(0)
        gone[0].cancel()
    gone[1].cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    async with asyncio.timeout(1):
        await _take(places, turns.Rank.HELPER)


async def _take(places: turns.Turns, rank: turns.Rank) -> None:
    async with places.taken(rank):
        pass


@given(
    count=st.integers(0, 20),
    ahead=st.integers(1, 5),
    moves=st.lists(st.sampled_from(["fresh", "used", "again", "take"]), max_size=100),
)
def test_every_page_has_its_turn(count: int, ahead: int, moves: list[str]) -> None:
    """Whatever happens, pages go out in order, none twice unless it failed, none too early."""
    plan = agenda.Agenda(range(1, count + 1), ahead)
    out: list[int] = []
    failed: list[int] = []
    taken = 0
    for move in moves:
        if move == "take" and taken < len(out):
            plan.taken()
            taken += 1
        elif move == "again" and out:
            plan.again(out[-1])
            failed.append(out[-1])
        elif (number := plan.next(fresh=move == "fresh")) in failed:
            assert move == "fresh"
            failed.remove(number)
        elif number is not None:
            out.append(number)
        assert plan.is_due == bool(failed or len(out) < min(count, taken + ahead))
        assert len(out) <= taken + ahead

    assert out == list(range(1, len(out) + 1))
