"""Allocation distributes all workers, keeps minimums, and moves workers only for a reason."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.pool import allocation

SIZE = 15
LANES = ("index", "acte", "image")
RULES = allocation.MoveRules({"index": 1, "acte": 1}, min_stay_seconds=30)


def _allocate_two(index: int, acte: int, size: int = SIZE) -> tuple[int, int]:
    lanes = [allocation.Lane("index", index, 1), allocation.Lane("acte", acte, 1)]
    allocated = allocation.allocate(lanes, size)
    return allocated["index"], allocated["acte"]


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [
        ((50, 5), (13, 2)),
        ((3, 80), (1, 14)),
        ((25, 25), (7, 8)),
        ((0, 0), (7, 8)),
        ((80, 20), (12, 3)),
        ((20, 80), (3, 12)),
    ],
)
def test_allocation_of_two_lanes_is_exact(
    backlog: tuple[int, int], expected: tuple[int, int]
) -> None:
    """Morning rush, afternoon, balance and empty queue, with fifteen workers."""
    assert _allocate_two(*backlog) == expected


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[allocation.Lane], int]:
    """Generate lanes, and a pool size that satisfies their minimums."""
    count = draw(st.integers(1, 6))
    lanes = [
        allocation.Lane(
            f"lane {number}",
            draw(st.integers(0, 10_000)),
            draw(st.integers(0, 3)),
            Fraction(draw(st.integers(1, 8)), draw(st.integers(1, 8))),
        )
        for number in range(count)
    ]
    needed = max(1, sum(lane.minimum for lane in lanes))
    return lanes, draw(st.integers(needed, needed + 40))


def _replace_backlog(
    lanes: list[allocation.Lane], number: int, backlog: int
) -> list[allocation.Lane]:
    changed = list(lanes)
    lane = changed[number]
    changed[number] = allocation.Lane(lane.name, backlog, lane.minimum, lane.weight)
    return changed


@given(pools())
def test_allocation_uses_all_workers_and_keeps_minimums(
    pool: tuple[list[allocation.Lane], int],
) -> None:
    """For any lanes, backlogs, weights and sizes."""
    lanes, size = pool
    allocated = allocation.allocate(lanes, size)
    assert sum(allocated.values()) == size
    assert all(allocated[lane.name] >= lane.minimum for lane in lanes)


@given(pools(), st.data())
def test_more_backlog_means_fewer_workers_only_by_rounding(
    pool: tuple[list[allocation.Lane], int], data: st.DataObject
) -> None:
    """The backlog of one lane grows, the others stay the same: it loses one worker at most."""
    lanes, size = pool
    number = data.draw(st.integers(0, len(lanes) - 1))
    more = lanes[number].backlog + data.draw(st.integers(1, 500))
    if any(lane.backlog for lane in lanes):  # the first document of all ends the even distribution
        before = allocation.allocate(lanes, size)[lanes[number].name]
        after = allocation.allocate(_replace_backlog(lanes, number, more), size)[lanes[number].name]
        assert after >= before - 1


@given(pools(), st.data())
def test_one_more_document_changes_the_allocation_little(
    pool: tuple[list[allocation.Lane], int], data: st.DataObject
) -> None:
    """With at least 100 documents per lane, by one worker per lane, or one in twenty."""
    lanes, size = pool
    many = [
        allocation.Lane(lane.name, 100 + lane.backlog, lane.minimum, lane.weight) for lane in lanes
    ]
    number = data.draw(st.integers(0, len(lanes) - 1))
    before = allocation.allocate(many, size)
    after = allocation.allocate(_replace_backlog(many, number, many[number].backlog + 1), size)
    assert all(abs(after[name] - before[name]) <= 1 + size // 20 for name in before)


@given(pools())
def test_lane_without_backlog_gets_its_minimum_only(
    pool: tuple[list[allocation.Lane], int],
) -> None:
    """While other lanes have work."""
    lanes, size = pool
    if any(lane.backlog for lane in lanes):
        allocated = allocation.allocate(lanes, size)
        idle = {lane.name: lane.minimum for lane in lanes if not lane.backlog}
        assert {name: allocated[name] for name in idle} == idle


@pytest.mark.parametrize(
    ("minimums", "size", "message"),
    [
        ((10, 6), 15, "16 workers (index 10 + acte 6), but the pool has 15"),
        ((-1, 1), 15, "is negative: -1"),
        ((0, 0), 0, "at least one worker"),
    ],
)
def test_minimums_above_the_size_are_refused_with_their_sum(
    minimums: tuple[int, int], size: int, message: str
) -> None:
    """The error shows which lanes need how many workers."""
    lanes = [allocation.Lane("index", 1, minimums[0]), allocation.Lane("acte", 1, minimums[1])]
    with pytest.raises(errors.SettingsError) as caught:
        allocation.allocate(lanes, size)
    assert message in str(caught.value)


def _make_workers(
    *lanes: str | None, seconds: float = 100, is_idle: bool = True
) -> list[allocation.WorkerState]:
    return [
        allocation.WorkerState(f"w{number}", lane, seconds, is_idle)
        for number, lane in enumerate(lanes)
    ]


def _count_by_lane(workers: list[allocation.WorkerState]) -> Counter[str | None]:
    return Counter(worker.lane for worker in workers)


def test_workers_move_towards_the_target() -> None:
    """Three of eight change from acte to index."""
    workers = _make_workers(*["index"] * 4, *["acte"] * 4)
    moved = allocation.rebalance(workers, {"index": 7, "acte": 1}, RULES)
    assert _count_by_lane(moved) == {"index": 7, "acte": 1}


def test_difference_of_one_worker_moves_none() -> None:
    """Backlogs fluctuate."""
    workers = _make_workers(*["index"] * 4, *["acte"] * 4)
    moved = allocation.rebalance(workers, {"index": 5, "acte": 3}, RULES)
    assert _count_by_lane(moved) == _count_by_lane(workers)


def test_lane_below_its_minimum_gets_a_worker_immediately() -> None:
    """Even if the difference is one worker."""
    moved = allocation.rebalance(_make_workers(*["index"] * 4), {"index": 3, "acte": 1}, RULES)
    assert _count_by_lane(moved)["acte"] == 1


def test_worker_keeps_its_lane_for_the_minimum_time() -> None:
    """Whatever the target is."""
    workers = _make_workers(*["index"] * 4, *["acte"] * 4, seconds=10)
    moved = allocation.rebalance(workers, {"index": 7, "acte": 1}, RULES)
    assert _count_by_lane(moved) == _count_by_lane(workers)


def test_idle_workers_move_before_busy_ones() -> None:
    """A busy worker changes its lane only after its document."""
    workers = [
        allocation.WorkerState("busy", "acte", 500, is_idle=False),
        allocation.WorkerState("reading", "acte", 400, is_idle=False),
        allocation.WorkerState("idle", "acte", 40, is_idle=True),
        allocation.WorkerState("waiting", "acte", 50, is_idle=True),
    ]
    moved = allocation.rebalance(workers, {"index": 2, "acte": 2}, RULES)
    assert {worker.worker_id for worker in moved if worker.lane == "index"} == {"idle", "waiting"}


def test_workers_without_a_served_lane_are_assigned_immediately() -> None:
    """New workers, and those of a lane that left the pool, go where most are missing."""
    workers = _make_workers(None, "gone", "acte")
    moved = allocation.rebalance(workers, {"index": 2, "acte": 1}, RULES)
    assert _count_by_lane(moved) == {"index": 2, "acte": 1}


@given(
    st.lists(
        st.builds(
            allocation.WorkerState,
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
def test_rebalance_keeps_all_workers_and_never_exceeds_the_target(
    workers: list[allocation.WorkerState], data: st.DataObject
) -> None:
    """Each worker has a lane, and no lane ends further from the target than it was."""
    left, target = len(workers), {}
    for lane in LANES[:-1]:
        target[lane] = data.draw(st.integers(0, left))
        left -= target[lane]
    target[LANES[-1]] = left
    moved = allocation.rebalance(workers, target, RULES)
    assert [w.worker_id for w in moved] == [w.worker_id for w in workers]
    assert all(worker.lane in target for worker in moved)
    before, after = _count_by_lane(workers), _count_by_lane(moved)
    for lane in LANES:
        assert after[lane] >= min(before[lane], target[lane])
        assert after[lane] <= max(before[lane], target[lane])
    again = allocation.rebalance(moved, target, RULES)
    can_move = any(worker.seconds >= RULES.min_stay_seconds for worker in moved)
    assert _count_by_lane(again) == after or can_move
