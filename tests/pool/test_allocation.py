"""The allocation: all of the pool, never less than the minimums, and more for whoever has more."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.pool import allocation, capacity

SIZE = 15


def _two(index: int, acte: int, size: int = SIZE) -> tuple[int, int]:
    lanes = [allocation.Lane("index", index, 1), allocation.Lane("acte", acte, 1)]
    found = allocation.allocate(lanes, size)
    return found["index"], found["acte"]


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
def test_the_scenarios_of_the_registry(backlog: tuple[int, int], expected: tuple[int, int]) -> None:
    """Morning rush, afternoon, balance, empty queue: with fifteen workers, to the man."""
    assert _two(*backlog) == expected


@pytest.mark.parametrize(
    ("cpu", "size", "split"),
    [(4, 2, (1, 1)), (8, 4, (2, 2)), (16, 8, (4, 4)), (32, 15, (7, 8)), (64, 15, (7, 8))],
)
def test_the_sizes_of_servers(cpu: int, size: int, split: tuple[int, int]) -> None:
    """Half the cores, fifteen at most, shared evenly while nothing waits."""
    assert capacity.recommended_size(cpu) == size
    assert _two(0, 0, size) == split


@st.composite
def pools(draw: st.DrawFn) -> tuple[list[allocation.Lane], int]:
    """Any lanes with minimums that fit."""
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


def _with(lanes: list[allocation.Lane], number: int, backlog: int) -> list[allocation.Lane]:
    changed = list(lanes)
    lane = changed[number]
    changed[number] = allocation.Lane(lane.name, backlog, lane.minimum, lane.weight)
    return changed


@given(pools())
def test_everybody_is_given_out_and_every_minimum_is_kept(
    pool: tuple[list[allocation.Lane], int],
) -> None:
    """Neither more nor fewer than there are."""
    lanes, size = pool
    found = allocation.allocate(lanes, size)
    assert sum(found.values()) == size
    assert all(found[lane.name] >= lane.minimum for lane in lanes)


@given(pools(), st.data())
def test_whoever_has_more_to_do_never_gets_less(
    pool: tuple[list[allocation.Lane], int], data: st.DataObject
) -> None:
    """More backlog in a lane, and nothing else changed."""
    lanes, size = pool
    number = data.draw(st.integers(0, len(lanes) - 1))
    more = lanes[number].backlog + data.draw(st.integers(1, 500))
    if any(lane.backlog for lane in lanes):  # the very first document ends the even split
        before = allocation.allocate(lanes, size)[lanes[number].name]
        after = allocation.allocate(_with(lanes, number, more), size)[lanes[number].name]
        assert after >= before


@given(pools(), st.data())
def test_one_document_more_moves_few_workers(
    pool: tuple[list[allocation.Lane], int], data: st.DataObject
) -> None:
    """A hundred wait everywhere: one more moves one worker of a lane, or one of twenty."""
    lanes, size = pool
    many = [
        allocation.Lane(lane.name, 100 + lane.backlog, lane.minimum, lane.weight) for lane in lanes
    ]
    number = data.draw(st.integers(0, len(lanes) - 1))
    before = allocation.allocate(many, size)
    after = allocation.allocate(_with(many, number, many[number].backlog + 1), size)
    assert all(abs(after[name] - before[name]) <= 1 + size // 20 for name in before)


@given(pools())
def test_a_lane_without_work_keeps_its_minimum_only(
    pool: tuple[list[allocation.Lane], int],
) -> None:
    """As long as others have work."""
    lanes, size = pool
    if any(lane.backlog for lane in lanes):
        found = allocation.allocate(lanes, size)
        idle = {lane.name: lane.minimum for lane in lanes if not lane.backlog}
        assert {name: found[name] for name in idle} == idle


@pytest.mark.parametrize(
    ("minimums", "size", "said"),
    [
        ((10, 6), 15, "16 workers (index 10 + acte 6), the pool has 15"),
        ((-1, 1), 15, "cannot have at least -1"),
        ((0, 0), 0, "at least one worker"),
    ],
)
def test_minimums_that_do_not_fit_are_refused_with_their_sum(
    minimums: tuple[int, int], size: int, said: str
) -> None:
    """Before anything starts."""
    lanes = [allocation.Lane("index", 1, minimums[0]), allocation.Lane("acte", 1, minimums[1])]
    with pytest.raises(errors.SettingsError) as refused:
        allocation.allocate(lanes, size)
    assert said in str(refused.value)
