"""Lines that agree with what a person made of a page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.documents import corrections, pages
from pagewarden.ocr.pages import Line, Point, bounding_box
from tests.exports import samples

_READ = [
    samples.line("Dear Ms Mueller,", top=100),
    samples.line("we write to yon", top=140, block=1),
    samples.line("once again.", top=180, block=1),
]
_texts = st.lists(st.text(st.sampled_from("ab \n"), max_size=12), max_size=8).map("\n".join)
_lines = st.lists(st.sampled_from(["a", "b", "ab", "ba b"]), max_size=6).map(
    lambda texts: [samples.line(text, top=40 * number) for number, text in enumerate(texts)]
)


def _tops(lines: tuple[Line, ...]) -> list[float]:
    return [round(bounding_box(line.quad).top) for line in lines]


def test_lines_keep_their_places_while_their_number_stays() -> None:
    """What was not touched keeps its words and how sure the reader was."""
    text = "Dear Ms Müller,\n\nwe write to you\nonce again."
    found = corrections.fit_text(text, _READ)
    assert corrections.join_lines(found) == text
    assert _tops(found) == [100, 140, 180]
    assert [line.confidence for line in found] == [1, 1, 0.9]
    assert found[2].words == _READ[2].words


@pytest.mark.parametrize(
    ("text", "tops"),
    [
        ("Dear Ms Mueller,\n\nonce again.", [100, 180]),
        ("Dear Ms Mueller,\n\nwe write to you\nnow\nonce again.", [100, 140, 152, 180]),
        ("Dear Ms Mueller,\n\nwe write to yon\nonce again.\nBye", [100, 140, 180, 192]),
        ("Hello!\nDear Ms Mueller,\n\nwe write to yon\nonce again.", [100, 112, 140, 180]),
        ("All of it", [100]),
        ("", []),
    ],
    ids=["taken out", "split", "added below", "added above", "joined", "emptied"],
)
def test_lines_that_came_share_the_place_of_those_that_went(text: str, tops: list[int]) -> None:
    """The others stay where they were."""
    found = corrections.fit_text(text, _READ)
    assert corrections.join_lines(found) == text
    assert _tops(found) == tops


def test_a_page_on_its_side_is_shared_out_along_its_lines() -> None:
    """Corners begin at the top left of the text, wherever that is."""
    up = Point(100, 900), Point(100, 100), Point(140, 100), Point(140, 900)
    first, second = corrections.fit_text("one\ntwo", [Line("one two", up, 0.5)])
    assert [corner.x for corner in first.quad] == [100, 100, 120, 120]
    assert [corner.x for corner in second.quad] == [120, 120, 140, 140]


@given(_texts, _lines)
def test_lines_always_spell_the_text(text: str, lines: list[Line]) -> None:
    """Whatever it was made of; only empty lines at the ends and beyond one are dropped."""
    found = corrections.fit_text(text, lines)
    assert [(line.text, line.block) for line in found] == corrections.split_text(text)
    again = corrections.fit_text(corrections.join_lines(found), found)
    assert again == found


def test_a_corrected_row_is_a_page_of_a_person() -> None:
    """Also one that failed, and has no size; one that nobody corrected stays as it was read."""
    row = {"page_number": 1, "lines": [], "status": "failed", "width": None, "height": None}
    row |= {"error": "broken", "details": {"source": "failed"}, "version": 0, "text": ""}
    assert pages.parse_row(row).error == "broken"
    typed = pages.parse_row(row | {"version": 1, "text": "by hand\n\nof mine"})
    assert (typed.source, typed.error, typed.text) == ("person", None, "by hand\n\nof mine")
    assert typed.width > 0
    assert typed.dpi > 0


def test_text_without_lines_is_not_lost() -> None:
    """Whoever saved a page by its text alone finds it in every format."""
    row = {"page_number": 1, "lines": [], "status": "read", "width": 100, "height": 100}
    page = pages.parse_row(row | {"error": None, "details": {}, "text": "only text"})
    assert (page.source, page.text) == ("ocr", "only text")


def test_lines_that_are_all_the_same_take_no_time() -> None:
    """A page of two thousand equal lines against another would keep us busy for minutes."""
    same = ["a"] * 1000
    mixed = [text for number in range(1000) for text in ("a", f"u{number}")]
    assert not corrections.is_diff_fast(same, mixed)
    assert corrections.is_diff_fast([f"u{number}" for number in range(2000)], mixed)
