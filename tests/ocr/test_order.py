"""Shuffled lines of synthetic layouts are sorted in reading order."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagewarden.ocr import pages
from pagewarden.ocr.layout import order


def line(text: str, left: float, top: float, *, width: float = 0, height: float = 20) -> pages.Line:
    """Make a line; without a width it is as wide as its letters are in print of that height."""
    right = left + (width or 0.45 * height * len(text))
    return pages.Line(text, pages.Box(left, top, right, top + height).quad(), 0.9)


def column(
    name: str, left: float, top: float, *, count: int = 8, width: float = 400
) -> list[pages.Line]:
    """Set a column of text."""
    return [line(f"{name}{i}", left, top + 25 * i, width=width) for i in range(count)]


def texts(lines: list[pages.Line], seed: int = 1) -> list[str]:
    """Shuffle lines, and read."""
    return [each.text for each in order.sort_in_reading_order(_shuffled(lines, seed))]


def names(*lines: list[pages.Line]) -> list[str]:
    """Say in which order lines were set."""
    return [each.text for group in lines for each in group]


def _shuffled(lines: list[pages.Line], seed: int = 1) -> list[pages.Line]:
    return random.Random(seed).sample(lines, len(lines))  # noqa: S311  # nothing secret


def test_a_page_without_lines_stays_empty() -> None:
    """No lines give no lines."""
    assert order.sort_in_reading_order([]) == ()


def test_one_column_is_read_from_top_to_bottom() -> None:
    """Ragged lines of one column keep their order."""
    lines = [line("abc" * (1 + i % 4), 50 + 20 * (i % 3), 25 * i) for i in range(12)]
    assert [each.quad for each in order.sort_in_reading_order(_shuffled(lines))] == [
        each.quad for each in lines
    ]


@pytest.mark.parametrize("stagger", [0, 7, 12])
def test_columns_are_read_one_after_the_other(stagger: float) -> None:
    """Two columns follow each other, level with each other or not."""
    left, right = column("l", 50, 100), column("r", 480, 100 + stagger)
    assert texts(left + right) == names(left, right)


def test_three_columns_with_a_narrow_gutter_are_kept_apart() -> None:
    """A gutter of half a line's height is enough."""
    columns = [
        column(name, left, 0, width=300) for name, left in (("a", 0), ("b", 310), ("c", 620))
    ]
    assert texts([*itertools.chain(*columns)]) == names(*columns)


def test_headings_across_the_page_separate_columns() -> None:
    """What stands above, between and below columns is read there."""
    title, heading, foot = (
        line(text, 200, top, width=500)
        for text, top in (("title", 0), ("heading", 260), ("foot", 560))
    )
    upper = column("a", 50, 40), column("b", 480, 40)
    lower = column("c", 50, 300), column("d", 480, 300)
    lines = [title, *upper[0], *upper[1], heading, *lower[0], *lower[1], foot]
    assert texts(lines) == names(lines)


def test_gutter_is_the_gap_between_the_longest_lines() -> None:
    """A heading that a short first line would leave room for still parts the columns."""
    left, right = column("l", 50, 0), column("r", 480, 0)
    left[0] = line("l0", 50, 0)
    heading = line("heading", 250, 260, width=400)
    below = column("c", 50, 300), column("d", 480, 300)
    lines = [*left, *right, heading, *below[0], *below[1]]
    assert texts(lines) == names(lines)


def test_signature_between_short_lines_is_not_a_column() -> None:
    """It is read at its position, although it overlaps its neighbours vertically."""
    lines = [
        *column("a", 50, 0, count=3, width=800),
        line("a thousand kisses sends you", 50, 75),
        line("Your Helen", 600, 88),
        line("Please write to me soon", 50, 101),
        *column("b", 50, 130, count=3, width=800),
    ]
    assert texts(lines) == names(lines)


def test_heading_below_columns_belongs_to_the_next_zone() -> None:
    """A short heading at the left is no end of the left column."""
    left, right = column("l", 50, 0), column("r", 480, 0)
    heading, below = line("Heading", 50, 260), column("b", 50, 290, width=830)
    assert texts([*left, *right, heading, *below]) == names(left, right, [heading], below)


def test_page_header_is_read_before_the_columns() -> None:
    """The page number at the right of the head does not wait for the left column."""
    head = [line("Chapter", 50, 0), line("17", 850, 0)]
    left, right = column("l", 50, 80), column("r", 480, 80)
    assert texts(head + left + right) == names(head, left, right)


def test_a_column_that_ends_early_does_not_end_the_other() -> None:
    """The longer column is read to its end first if it is the left one."""
    left, right = column("l", 50, 0, count=14), column("r", 480, 0, count=5)
    assert texts(left + right) == names(left, right)


def test_a_table_is_read_row_by_row() -> None:
    """Cells of a row belong together, and an empty one does no harm."""
    rows = [
        [line(f"name {i}", 50, 40 * i), line(f"{i} a", 400, 40 * i), line(f"{i}.50", 600, 40 * i)]
        for i in range(6)
    ]
    del rows[3][1]
    lines = [*itertools.chain(*rows)]
    assert texts(lines) == names(lines)


@pytest.mark.parametrize(
    "labels",
    [
        ["Name:", "Street:", "Date of birth:"],
        ["No", "To", "On"],
        ["Name of the buyer:", "Date of birth:", "Day of payment:"],
    ],
)
def test_a_label_is_read_with_its_value(labels: list[str]) -> None:
    """Side by side single lines follow each other."""
    rows = [
        (line(label, 50, 30 * i), line(f"the value {i}", 300, 30 * i))
        for i, label in enumerate(labels)
    ]
    lines = [cell for row in rows for cell in row]
    assert texts(lines) == names(lines)


def test_verses_in_two_columns_are_read_column_by_column() -> None:
    """Short lines of about the same length are no table."""
    left = [line(f"how sweet the moonlight {i}"[: 14 + i], 50, 25 * i) for i in range(8)]
    right = [line(f"here will we sit and let {i}"[: 22 - i], 350, 25 * i) for i in range(8)]
    assert texts(left + right) == names(left, right)


def test_parts_of_a_line_stay_together() -> None:
    """A line that a detector has broken is put together from left to right, in one block."""
    lines = [line(f"full {i}", 50, 25 * i, width=800) for i in range(4)]
    broken = [
        line("one", 50, 101, width=300),
        line("two", 380, 98, width=200),
        line("three", 620, 103, width=230),
    ]
    more = [line(f"more {i}", 50, 125 + 25 * i, width=800) for i in range(3)]
    read = order.sort_in_reading_order(_shuffled([*lines, *broken, *more]))
    assert [each.text for each in read] == names(lines, broken, more)
    assert {each.block for each in read} == {0}


@pytest.mark.parametrize("left", [106, 125])
def test_a_drop_cap_begins_its_paragraph(left: float) -> None:
    """The tall letter is read before the first of the lines it stands by, or even touches."""
    cap = line("O", 50, 0, width=60, height=118)
    lines = [line(f"line {i}", left, 25 * i, width=500) for i in range(5)]
    lines += [line(f"line {i}", 50, 25 * i, width=565) for i in range(5, 12)]
    assert texts([cap, *lines]) == names([cap], lines)


def test_text_in_the_margin_comes_last() -> None:
    """Text at right angles is not mixed with the rest."""
    main = column("m", 100, 0)
    upwards = pages.Line(
        "margin",
        (pages.Point(20, 180), pages.Point(20, 20), pages.Point(45, 20), pages.Point(45, 180)),
        0.9,
    )
    assert texts([*main, upwards]) == names(main, [upwards])


def test_arabic_columns_are_read_from_right_to_left() -> None:
    """So are the parts of a line."""
    left, right = column("\u0633\u0637\u0631", 50, 0), column("\u0639\u0645\u0648\u062f", 480, 0)
    pieces = [line("\u0623\u0648\u0644", 480, 300), line("\u062b\u0627\u0646", 380, 300)]
    assert texts(left + right + pieces) == names(right, left, pieces)


def test_blocks_are_columns_and_paragraphs() -> None:
    """A gap or a jump begins a new block, the next line does not."""
    first, second = column("a", 50, 0, count=3), column("b", 50, 110, count=3)
    right = column("c", 480, 0, count=6)
    read = order.sort_in_reading_order(_shuffled([*first, *second, *right]))
    assert [(each.text[0], each.block) for each in read] == [
        *[("a", 0)] * 3,
        *[("b", 1)] * 3,
        *[("c", 2)] * 6,
    ]


@pytest.mark.parametrize("degrees", [-12, 3, 90, 180, 265])
def test_skewed_page_has_the_same_order(degrees: float) -> None:
    """Only relative positions matter."""
    lines = [line("title", 200, -40, width=500), *column("l", 50, 0), *column("r", 480, 0)]
    assert texts([_turned(each, degrees) for each in lines]) == names(lines)


def _turned(each: pages.Line, degrees: float) -> pages.Line:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    first, second, third, fourth = (
        pages.Point(x * cos - y * sin, x * sin + y * cos) for x, y in each.quad
    )
    return replace(each, quad=(first, second, third, fourth))


def _moved(each: pages.Line, factor: float, x: float, y: float) -> pages.Line:
    first, second, third, fourth = (
        pages.Point(factor * point.x + x, factor * point.y + y) for point in each.quad
    )
    return replace(each, quad=(first, second, third, fourth))


@st.composite
def layouts(draw: st.DrawFn) -> list[pages.Line]:
    """Draw lines of any place and size, each with a name of its own."""
    places = draw(
        st.lists(st.tuples(*(st.integers(low, 600) for low in (0, 0, 1, 5))), max_size=40)
    )
    return [
        line(f"line {i}", left, top, width=width, height=height % 60 + 5)
        for i, (left, top, width, height) in enumerate(places)
    ]


@settings(max_examples=60)
@given(layouts(), st.integers())
def test_any_lines_are_returned_once_in_a_stable_order(lines: list[pages.Line], seed: int) -> None:
    """The result is a permutation that does not depend on the input order."""
    read = order.sort_in_reading_order(lines)
    assert sorted(names(list(read))) == sorted(names(lines))
    assert order.sort_in_reading_order(_shuffled(lines, seed)) == read


@settings(max_examples=60)
@given(layouts())
def test_blocks_are_numbered_without_a_gap(lines: list[pages.Line]) -> None:
    """They begin at 0 and go up by one."""
    blocks = [each.block for each in order.sort_in_reading_order(lines)]
    assert blocks == sorted(blocks)
    assert set(blocks) == set(range(len(set(blocks))))


@given(
    layouts(),
    st.sampled_from([0.25, 0.5, 2, 8]),
    st.integers(-9999, 9999),
    st.integers(-9999, 9999),
)
def test_order_does_not_depend_on_scale_or_position(
    lines: list[pages.Line], factor: float, x: int, y: int
) -> None:
    """A page at twice the resolution, or with wider margins, is read alike."""
    moved = [_moved(each, factor, x, y) for each in lines]
    assert texts(moved) == texts(lines)
