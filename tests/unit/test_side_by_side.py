"""Several things at a time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pagewarden import side_by_side


async def test_what_comes_of_works_comes_in_their_order() -> None:
    """Also if the first takes longest."""
    late = asyncio.Event()

    async def work(number: int) -> int:
        if number == 0:
            await late.wait()
        if number == 2:
            late.set()
        return number

    found = side_by_side.in_order((work(number) for number in range(5)), ahead=3)
    assert [number async for number in found] == [0, 1, 2, 3, 4]


async def test_no_more_run_than_are_allowed_and_none_before_it_is_its_turn() -> None:
    """Whoever stops taking stops the work."""
    running, most, begun = 0, 0, 0

    async def work() -> None:
        nonlocal running, most, begun
        begun += 1
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    async with aclosing(side_by_side.in_order((work() for _ in range(100)), ahead=4)) as found:
        async for _ in found:
            if begun >= 10:
                break
    assert most <= 4
    assert begun < 20


async def test_the_first_that_fails_ends_all() -> None:
    """None goes on behind our back."""
    ended: list[int] = []

    async def work(number: int) -> None:
        if number == 1:
            raise ValueError("no")
        try:
            await asyncio.Event().wait() if number else None
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="no"):
        async for _ in side_by_side.in_order((work(number) for number in range(9)), ahead=4):
            pass
    assert sorted(ended) == [0, 2, 3]  # the next ones had not begun
