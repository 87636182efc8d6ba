"""Moves: towards the allocation, by a real difference only, and never somebody who just came."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pagewarden.pool import moves

LANES = ("index", "acte", "image")
RULES = moves.Rules({"index": 1, "acte": 1}, keep_seconds=30)


def _workers(*lanes: str | None, seconds: float = 100, is_idle: bool = True) -> list[moves.Worker]:
    return [moves.Worker(f"w{n}", lane, seconds, is_idle) for n, lane in enumerate(lanes)]


def _counts(workers: list[moves.Worker]) -> Counter[str | None]:
    return Counter(worker.lane for worker in workers)


def test_workers_go_where_the_target_says() -> None:
    """Of eight, three change from acte to index."""
    found = moves.rebalance(_workers(*["index"] * 4, *["acte"] * 4), {"index": 7, "acte": 1}, RULES)
    assert _counts(found) == {"index": 7, "acte": 1}


def test_one_worker_more_or_less_is_no_reason_to_move() -> None:
    """Backlogs tremble."""
    workers = _workers(*["index"] * 4, *["acte"] * 4)
    assert _counts(moves.rebalance(workers, {"index": 5, "acte": 3}, RULES)) == _counts(workers)


def test_a_lane_below_its_minimum_gets_somebody_at_once() -> None:
    """Be the difference as small as it may."""
    found = moves.rebalance(_workers(*["index"] * 4), {"index": 3, "acte": 1}, RULES)
    assert _counts(found)["acte"] == 1


def test_whoever_just_came_stays() -> None:
    """A lane is kept for a while, whatever the target says."""
    workers = _workers(*["index"] * 4, *["acte"] * 4, seconds=10)
    assert _counts(moves.rebalance(workers, {"index": 7, "acte": 1}, RULES)) == _counts(workers)


def test_the_idle_go_before_those_who_read() -> None:
    """A busy one would come only when its document is done."""
    workers = [
        moves.Worker("busy", "acte", 500, is_idle=False),
        moves.Worker("reading", "acte", 400, is_idle=False),
        moves.Worker("idle", "acte", 40, is_idle=True),
        moves.Worker("waiting", "acte", 50, is_idle=True),
    ]
    found = moves.rebalance(workers, {"index": 2, "acte": 2}, RULES)
    assert {worker.worker_id for worker in found if worker.lane == "index"} == {"idle", "waiting"}


def test_newcomers_and_those_of_a_lane_that_is_served_no_more_are_placed() -> None:
    """Where most are missing, at once."""
    found = moves.rebalance(_workers(None, "gone", "acte"), {"index": 2, "acte": 1}, RULES)
    assert _counts(found) == {"index": 2, "acte": 1}


@given(
    st.lists(
        st.builds(
            moves.Worker,
            worker_id=st.uuids().map(str),
            lane=st.sampled_from([*LANES, None]),
            seconds=st.floats(0, 100),
            is_idle=st.booleans(),
        ),
        min_size=1,
        max_size=20,
        unique_by=lambda worker: worker.worker_id,
    ),
    st.data(),
)
def test_nobody_is_lost_and_no_lane_is_overshot(
    workers: list[moves.Worker], data: st.DataObject
) -> None:
    """Whatever the target: everybody has a lane, and a move never overdoes it."""
    left, target = len(workers), {}
    for lane in LANES[:-1]:
        target[lane] = data.draw(st.integers(0, left))
        left -= target[lane]
    target[LANES[-1]] = left
    found = moves.rebalance(workers, target, RULES)
    assert [w.worker_id for w in found] == [w.worker_id for w in workers]
    assert all(worker.lane in target for worker in found)
    before, after = _counts(workers), _counts(found)
    for lane in LANES:
        assert after[lane] >= min(before[lane], target[lane])
        assert after[lane] <= max(before[lane], target[lane])
    again = moves.rebalance(found, target, RULES)
    assert _counts(again) == after or any(w.seconds >= RULES.keep_seconds for w in found)
