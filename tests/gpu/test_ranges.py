"""Ranges of pages: written, read, and turned round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.gpu import ranges

NUMBERS = st.integers(1, 60)


@st.composite
def written(draw: st.DrawFn) -> tuple[str, set[int]]:
    """Write some ranges, and list the pages up to 60 that they have."""
    parts, numbers = [], set[int]()
    for first in draw(st.lists(NUMBERS, min_size=1, max_size=6)):
        last = draw(st.none() | st.integers(first, 60))
        single = draw(st.booleans())
        parts.append(str(first) if single else f"{first}-{last or ''}")
        numbers |= {first} if single else set(range(first, (last or 60) + 1))
    return ",".join(parts), numbers


@given(written())
def test_ranges_have_the_pages_that_are_written_and_no_others(given: tuple[str, set[int]]) -> None:
    """In whatever order they come, and also where they overlap."""
    text, numbers = given
    found = ranges.parse(text)
    assert {number for number in range(61) if number in found} == numbers
    assert {number for number in range(1, 61) if number not in found.others()} == numbers


@given(written())
def test_ranges_survive_being_written(given: tuple[str, set[int]]) -> None:
    """What one side writes the other one reads."""
    found = ranges.parse(given[0])
    assert ranges.parse(str(found)) == found


@given(st.frozensets(NUMBERS))
def test_all_but_the_done_pages_are_wanted(done: frozenset[int]) -> None:
    """However many there are, for that is not known yet."""
    wanted = ranges.parse(str(ranges.without(done)))
    assert {number for number in range(1, 1000) if number not in wanted} == done


def test_ranges_are_short() -> None:
    """Pages side by side are one range."""
    assert str(ranges.without([1, 2, 3, 5])) == "4,6-"
    assert str(ranges.without([])) == "1-"
    assert str(ranges.parse("7, 1-3 ,4 - 5,12-")) == "1-5,7,12-"


@pytest.mark.parametrize(
    "text", ["", "0", "3-1", "1,,2", "-", "-3", "1-2-3", "a", "1.5", "٣", "9" * 10, "1;2"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    """The message says how to write one."""
    with pytest.raises(ValueError, match=r"1-3,7,12-|count from 1"):
        ranges.parse(text)
