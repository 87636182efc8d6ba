from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagewarden.ocr import pages
from pagewarden.ocr.engines import base, rapid
from pagewarden.ocr.lines import crops
from tests.ocr import printed

_ENGLISH = base.PageHints(("eng",))


@pytest.fixture(scope="module")
def reader() -> rapid.RapidEngine:
    """Load the models once."""
    return rapid.RapidEngine()


def test_hebrew_model_gives_logical_order() -> None:
    """It reads letters from left to right; numbers and Latin phrases keep their order."""
    seen = ["לש", "Windows", "XP", "רפס", "12.5"]
    words = [crops.WordSpan(text, 1.0, 1.0, 0.0, 0.0) for text in seen]

    assert crops.make_reading(words).text == "12.5 ספר Windows XP של"


def test_printed_lines_are_read(reader: rapid.RapidEngine) -> None:
    """Clean print comes back letter by letter, line by line."""
    found = reader.recognise(printed.page(printed.ENGLISH), _ENGLISH)
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)
    assert all(line.confidence > 0.9 for line in found.lines)


def test_words_have_their_printed_positions(reader: rapid.RapidEngine) -> None:
    """Positions in the model output are mapped to the page."""
    found = reader.recognise(printed.page(printed.ENGLISH), _ENGLISH)
    printed.assert_in_place(found, printed.ENGLISH)


def test_colours_and_accents_survive(reader: rapid.RapidEngine) -> None:
    """A page in colour is read with the letters of its language."""
    found = reader.recognise(printed.page(printed.GERMAN, colour=True), base.PageHints(("deu",)))
    assert printed.text_of(found) == "\n".join(printed.GERMAN)


def test_a_page_without_hints_is_read_as_well(reader: rapid.RapidEngine) -> None:
    """Latin letters need no hint."""
    found = reader.recognise(printed.page(printed.ENGLISH), base.PageHints())
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)


def test_a_large_scan_is_read_as_well_as_a_small_one(reader: rapid.RapidEngine) -> None:
    """Lines are found on a small copy, but read from the full page, scaled down smoothly."""
    found = reader.recognise(printed.page(printed.ENGLISH, size=110), _ENGLISH)
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)


def test_a_line_that_runs_down_the_page_begins_at_its_own_top_left(
    reader: rapid.RapidEngine,
) -> None:
    """Its first corner is at the right, where the heads of its letters are."""
    level = printed.page(printed.ENGLISH[:1])
    turned = base.PageImage(np.ascontiguousarray(np.rot90(level.pixels, -1)), level.dpi)
    (line,) = reader.recognise(turned, _ENGLISH).lines
    assert line.text == printed.ENGLISH[0]
    box, first = pages.bounding_box(line.quad), line.quad[0]
    assert first.x == pytest.approx(box.right, abs=2)
    assert first.y == pytest.approx(box.top, abs=2)


def test_an_empty_page_has_no_lines(reader: rapid.RapidEngine) -> None:
    """White paper is not text."""
    white = np.full((600, 400), 255, np.uint8)
    assert reader.recognise(base.PageImage(white, 300), _ENGLISH).lines == []


@given(
    width=st.integers(1, 300),
    height=st.integers(1, 300),
    colours=st.booleans(),
    seed=st.integers(0, 9),
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_image_is_accepted(
    reader: rapid.RapidEngine, *, width: int, height: int, colours: bool, seed: int
) -> None:
    """Slivers and noise of any shape give a result, with every line on or near the page."""
    shape = (height, width, 3) if colours else (height, width)
    pixels = np.random.default_rng(seed).integers(0, 255, shape, np.uint8)
    for line in reader.recognise(base.PageImage(pixels, 72), _ENGLISH).lines:
        box = pages.bounding_box(line.quad)
        assert 0 <= line.confidence <= 1
        assert box.right > 0
        assert box.left < width


def _read_in_child(reader: rapid.RapidEngine, answers: multiprocessing.SimpleQueue[str]) -> None:
    found = reader.recognise(printed.page(printed.ENGLISH[:1]), _ENGLISH)
    answers.put(printed.text_of(found))


def test_models_loaded_before_a_fork_work_after_it(reader: rapid.RapidEngine) -> None:
    """A session of one thread survives the fork; one with a pool of threads would hang."""
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(reader, answers))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert answers.get() == printed.ENGLISH[0]
