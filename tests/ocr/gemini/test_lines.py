"""Encoding of a page, and lines placed on it."""

from __future__ import annotations

import io

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image, ImageChops

from pagewarden.ocr import pages
from pagewarden.ocr.engines import base
from pagewarden.ocr.engines.gemini import engine, responses
from tests.support import gemini_engine as engines
from tests.support import gemini_server


def test_jpeg_shows_the_page(server: gemini_server.GeminiServer, make: engines.Make) -> None:
    """Colours are in their order and nothing is moved."""
    server.script = [gemini_server.extraction_reply()]
    page = engines.make_page(colour=(200, 30, 60))

    make().recognise(page, base.PageHints())

    with Image.open(io.BytesIO(server.requests[0].image)) as sent:
        difference = ImageChops.difference(sent, Image.fromarray(page.pixels))
        assert (sent.format, sent.size) == ("JPEG", (engines.WIDTH, engines.HEIGHT))
        assert np.asarray(difference).mean() < 3


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((6144, 3072), (1536, 3072)),
        ((100, 4000, 3), (3072, 77)),
        ((20_000, 1), (1, 3072)),
        ((3072, 10), (10, 3072)),
    ],
)
def test_large_page_is_scaled_down(shape: tuple[int, ...], size: tuple[int, int]) -> None:
    """The service uses no more pixels; grey stays grey."""
    page = base.PageImage(np.full(shape, 255, np.uint8), dpi=300)

    with Image.open(io.BytesIO(engine.encode_page(page))) as sent:
        assert (sent.size, sent.mode) == (size, "RGB" if len(shape) == 3 else "L")


@pytest.mark.parametrize(
    "box",
    [
        None,
        [],
        [1, 2, 3],
        [10, 10, 20, 20, 30],
        [100, 200, 100, 300],
        [120, 200, 100, 300],
        [100, 300, 120, 300],
        [-1, 200, 120, 300],
        [100, 200, 120, 1400],
    ],
)
def test_line_without_a_valid_box_gets_a_strip_by_its_index(box: object) -> None:
    """Its confidence says that the place is a guess."""
    found = [
        responses.FoundLine.model_validate(gemini_server.line(text, place))
        for text, place in [("a", [0, 0, 10, 10]), ("b", box), ("c", [90, 0, 99, 10])]
    ]

    placed = responses.place_on_page(found, 400, 600)

    assert pages.bounding_box(placed[1].quad) == pytest.approx((0, 200, 400, 400))
    sure, unplaced = responses.CONFIDENCE, responses.UNPLACED_CONFIDENCE
    assert [line.confidence for line in placed] == [sure, unplaced, sure]


def test_words_share_the_box_of_their_line_by_characters() -> None:
    """A word of three letters in a line of ten takes three tenths of it."""
    line = responses.FoundLine(text="the second", box_2d=[0, 0, 100, 1000])

    (placed,) = responses.place_on_page([line], 100, 200)

    assert placed.words == (
        pages.Word("the", pages.Box(0, 0, 30, 20).quad(), responses.CONFIDENCE),
        pages.Word("second", pages.Box(40, 0, 100, 20).quad(), responses.CONFIDENCE),
    )


def test_right_to_left_words_begin_at_the_right() -> None:
    """The first word of a Hebrew line is the rightmost one."""
    line = responses.FoundLine(text="שלום אב", box_2d=[0, 0, 100, 1000])

    (placed,) = responses.place_on_page([line], 70, 100)

    assert [pages.bounding_box(word.quad)[::2] for word in placed.words] == [(30, 70), (0, 20)]


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(
    st.lists(
        st.builds(
            responses.FoundLine,
            text=st.text(max_size=30),
            box_2d=st.none() | st.lists(st.floats(-10, 1100), max_size=5),
        ),
        max_size=6,
    ),
    st.integers(1, 5000),
    st.integers(1, 5000),
)
def test_any_found_lines_become_valid_lines(
    found: list[responses.FoundLine], width: int, height: int
) -> None:
    """Text is one printable line, boxes are on the page, words are inside their line."""
    for line in responses.place_on_page(found, width, height):
        box = pages.bounding_box(line.quad)
        assert line.text
        assert line.text.split() == [word.text for word in line.words]
        assert not any(ord(char) < 32 for char in line.text)
        assert 0 <= line.confidence <= 1
        assert 0 <= box.left < box.right <= width + 1e-6
        assert 0 <= box.top < box.bottom <= height + 1e-6
        for word in line.words:
            place = pages.bounding_box(word.quad)
            assert box.left - 1e-6 <= place.left < place.right <= box.right + 1e-6
