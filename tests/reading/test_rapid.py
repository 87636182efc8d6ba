from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagewarden.reading import engine, pages, rapid
from pagewarden.reading.lines import readings
from tests.reading import printed

_ENGLISH = engine.Hints(("eng",))


@pytest.fixture(scope="module")
def reader() -> rapid.Rapid:
    """Load the networks once."""
    return rapid.Rapid()


def test_a_network_that_reads_hebrew_gives_logical_order() -> None:
    """It sees letters from left to right; numbers and Latin phrases run that way anyway."""
    seen = ["לש", "Windows", "XP", "רפס", "12.5"]
    words = [readings.Span(text, 1.0, 1.0, 0.0, 0.0) for text in seen]

    assert readings.of_visual(words).text == "12.5 ספר Windows XP של"


def test_printed_lines_are_read_as_they_stand(reader: rapid.Rapid) -> None:
    """Clean print comes back letter by letter, line by line."""
    found = reader.recognise(printed.page(printed.ENGLISH), _ENGLISH)
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)
    assert all(line.confidence > 0.9 for line in found.lines)


def test_words_stand_where_they_are_printed(reader: rapid.Rapid) -> None:
    """Positions in the network's answer become places on the page."""
    found = reader.recognise(printed.page(printed.ENGLISH), _ENGLISH)
    printed.assert_in_place(found, printed.ENGLISH)


def test_colours_and_accents_survive(reader: rapid.Rapid) -> None:
    """A page in colour is read with the letters of its language."""
    found = reader.recognise(printed.page(printed.GERMAN, colour=True), engine.Hints(("deu",)))
    assert printed.text_of(found) == "\n".join(printed.GERMAN)


def test_a_page_without_hints_is_read_as_well(reader: rapid.Rapid) -> None:
    """Latin letters need no hint."""
    found = reader.recognise(printed.page(printed.ENGLISH), engine.Hints())
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)


def test_a_large_scan_is_read_as_well_as_a_small_one(reader: rapid.Rapid) -> None:
    """Lines are found on a small copy, but read from the full page, scaled down smoothly."""
    found = reader.recognise(printed.page(printed.ENGLISH, size=110), _ENGLISH)
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)


def test_a_line_that_runs_down_the_page_begins_at_its_own_top_left(reader: rapid.Rapid) -> None:
    """Its first corner is at the right, where the heads of its letters are."""
    level = printed.page(printed.ENGLISH[:1])
    turned = engine.PageImage(np.ascontiguousarray(np.rot90(level.pixels, -1)), level.dpi)
    (line,) = reader.recognise(turned, _ENGLISH).lines
    assert line.text == printed.ENGLISH[0]
    box, first = pages.bounds(line.quad), line.quad[0]
    assert first.x == pytest.approx(box.right, abs=2)
    assert first.y == pytest.approx(box.top, abs=2)


def test_an_empty_page_has_no_lines(reader: rapid.Rapid) -> None:
    """White paper is not text."""
    white = np.full((600, 400), 255, np.uint8)
    assert reader.recognise(engine.PageImage(white, 300), _ENGLISH).lines == []


@given(
    width=st.integers(1, 300),
    height=st.integers(1, 300),
    colours=st.booleans(),
    seed=st.integers(0, 9),
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_image_is_taken(
    reader: rapid.Rapid, *, width: int, height: int, colours: bool, seed: int
) -> None:
    """Slivers and noise of any shape give some answer, with every line on or near the page."""
    shape = (height, width, 3) if colours else (height, width)
    pixels = np.random.default_rng(seed).integers(0, 255, shape, np.uint8)
    for line in reader.recognise(engine.PageImage(pixels, 72), _ENGLISH).lines:
        box = pages.bounds(line.quad)
        assert 0 <= line.confidence <= 1
        assert box.right > 0
        assert box.left < width


def _read_in_child(reader: rapid.Rapid, answers: multiprocessing.SimpleQueue[str]) -> None:
    found = reader.recognise(printed.page(printed.ENGLISH[:1]), _ENGLISH)
    answers.put(printed.text_of(found))


def test_networks_loaded_before_a_fork_read_after_it(reader: rapid.Rapid) -> None:
    """A session of one thread survives the fork; one with a pool of threads would hang."""
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(reader, answers))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert answers.get() == printed.ENGLISH[0]
