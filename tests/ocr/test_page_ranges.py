"""Page ranges: parse, format and complement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.ocr import page_ranges

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
def test_ranges_contain_exactly_the_given_pages(given: tuple[str, set[int]]) -> None:
    """In whatever order they come, and also where they overlap."""
    text, numbers = given
    found = page_ranges.parse(text)
    assert {number for number in range(61) if number in found} == numbers
    assert {number for number in range(1, 61) if number not in found.complement()} == numbers


@given(written())
def test_formatted_ranges_can_be_parsed(given: tuple[str, set[int]]) -> None:
    """What one side writes the other one reads."""
    found = page_ranges.parse(given[0])
    assert page_ranges.parse(str(found)) == found


@given(st.frozensets(NUMBERS))
def test_ranges_of_all_pages_except_some(done: frozenset[int]) -> None:
    """However many there are, for that is not known yet."""
    wanted = page_ranges.parse(str(page_ranges.all_except(done)))
    assert {number for number in range(1, 1000) if number not in wanted} == done


def test_ranges_are_short() -> None:
    """Pages side by side are one range."""
    assert str(page_ranges.all_except([1, 2, 3, 5])) == "4,6-"
    assert str(page_ranges.all_except([])) == "1-"
    assert str(page_ranges.parse("7, 1-3 ,4 - 5,12-")) == "1-5,7,12-"


@pytest.mark.parametrize(
    "text", ["", "0", "3-1", "1,,2", "-", "-3", "1-2-3", "a", "1.5", "٣", "9" * 10, "1;2"]
)
def test_invalid_range_is_rejected(text: str) -> None:
    """The message says how to write one."""
    with pytest.raises(ValueError, match=r"1-3,7,12-|begin at 1"):
        page_ranges.parse(text)
