"""Rotated and skewed pages are straightened, and other pages are unchanged."""

from __future__ import annotations

import functools
import itertools

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pagewarden.ocr import pages
from pagewarden.ocr.engines import base
from pagewarden.ocr.images import orientation
from pagewarden.ocr.images import pixels as images_pixels

Pixels = NDArray[np.uint8]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

TEXT = (
    "every page that comes in through the front door is read once by someone who knows the "
    "language and is then put back upon the shelf from which it had been taken before dawn "
    "while people in the valley below talk about prices and weather and their grandchildren"
)


@functools.cache
def printed(size: int = 28, width: int = 1000, height: int = 1400, *, columns: int = 1) -> Pixels:
    """Print a page of ragged paragraphs."""
    paper = Image.new("L", (width, height), 250)
    pen = ImageDraw.Draw(paper)
    font = ImageFont.load_default(size)
    shuffle = np.random.default_rng(size)
    for number in range(columns):
        room = (width - 160) // columns - 40
        left = 80 + number * (room + 60)
        for top in range(100, height - 100, int(1.5 * size)):
            pen.text((left, top), _line(shuffle, font, room), fill=20, font=font)
    return np.asarray(paper)


def _line(shuffle: np.random.Generator, font: Font, room: float) -> str:
    text = ""
    for word in shuffle.permutation(TEXT.split()):
        if font.getlength(f"{text} {word}") > room or shuffle.random() < 0.03:
            break
        text = f"{text} {word}"
    return text.strip().capitalize()


def straightened(pixels: Pixels) -> orientation.UprightPage:
    """Straighten a page of any resolution."""
    return orientation.straighten(base.PageImage(pixels, 150))


def turned(pixels: Pixels, degrees: int) -> Pixels:
    """Rotate a page clockwise, as on a scan in the wrong orientation."""
    return np.ascontiguousarray(np.rot90(pixels, -degrees // 90))


def noisy(pixels: Pixels) -> Pixels:
    """Add noise and specks to a page, and a shadow on one side."""
    chance = np.random.default_rng(1)
    shadow = np.linspace(0.5, 1, pixels.shape[1])
    page = pixels * shadow + chance.normal(0, 8, pixels.shape)
    page[chance.random(pixels.shape) < 0.001] = 0
    return page.clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", [16, 28, 60])
@pytest.mark.parametrize("columns", [1, 2])
def test_upright_page_is_unchanged(size: int, columns: int) -> None:
    """The pixels are not even copied."""
    pixels = printed(size, columns=columns)
    result = straightened(pixels)
    assert (result.rotation, result.skew) == (0, 0.0)
    assert result.image.pixels is pixels


@pytest.mark.parametrize("degrees", [90, 180, 270])
@pytest.mark.parametrize("columns", [1, 2])
def test_rotated_page_is_rotated_back_without_loss(degrees: int, columns: int) -> None:
    """Rotation by quarters is lossless."""
    pixels = printed(columns=columns)
    result = straightened(turned(pixels, degrees))
    assert (result.rotation, result.skew) == (360 - degrees, 0.0)
    assert np.array_equal(result.image.pixels, pixels)


def test_few_upside_down_lines_are_rotated_if_then_legible() -> None:
    """The recogniser decides if the classifier is uncertain."""
    pixels = np.ascontiguousarray(printed()[60:230])
    result = straightened(turned(pixels, 180))
    assert result.rotation == 180
    assert np.array_equal(result.image.pixels, pixels)


@pytest.mark.parametrize("skew", [-15, -3.5, -0.9, 1.4, 7.5, 15, 30.5])
def test_skewed_page_is_deskewed(skew: float) -> None:
    """The skew is accurate to 0.2 degrees, and the result has none."""
    result = straightened(images_pixels.deskew(printed(), -skew))
    assert result.rotation == 0
    assert result.skew == pytest.approx(skew, abs=0.2)
    assert straightened(result.image.pixels).skew == 0


def test_harmless_skew_is_not_corrected() -> None:
    """Rotation by half a degree would only blur the image."""
    pixels = images_pixels.deskew(printed(), 0.5)
    assert straightened(pixels).image.pixels is pixels


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_page_may_be_rotated_and_skewed_and_noisy(degrees: int) -> None:
    """All are corrected together."""
    result = straightened(turned(noisy(images_pixels.deskew(printed(), 5)), degrees))
    assert result.rotation == 360 - degrees
    assert result.skew == pytest.approx(-5, abs=0.2)


def test_colours_survive() -> None:
    """A coloured page stays coloured."""
    pixels = np.stack([printed(), printed() // 2, printed()], axis=2)
    result = straightened(turned(pixels, 90))
    assert np.array_equal(result.image.pixels, pixels)
    assert straightened(images_pixels.deskew(pixels, 3)).image.pixels.ndim == 3


def test_deskewing_cuts_nothing_off() -> None:
    """Its four corners are still there, and what is new is like paper."""
    pixels = np.full((700, 500), 240, np.uint8)
    for corner in itertools.product((slice(9), slice(-9, None)), repeat=2):
        pixels[corner] = 0
    level = images_pixels.deskew(pixels, 11)
    found, _ = cv2.connectedComponents((level < 120).astype(np.uint8))
    assert found - 1 == 4
    assert level[0, 0] == 240


@pytest.mark.parametrize("shape", [(1, 1), (3, 2000), (40000, 2), (500, 700), (2000, 1500, 3)])
def test_empty_page_is_unchanged(shape: tuple[int, ...]) -> None:
    """Blank pages of any shape have no direction."""
    pixels = np.full(shape, 255, np.uint8)
    assert straightened(pixels).image.pixels is pixels


def test_picture_without_text_is_unchanged() -> None:
    """Clouds, grain and stripes are no lines of text."""
    chance = np.random.default_rng(0)
    clouds = np.asarray(
        Image.fromarray(chance.integers(0, 255, (40, 30), np.uint8)).resize((900, 1200))
    )
    grain = chance.integers(0, 255, (1200, 900), np.uint8)
    stripes = np.tile(np.repeat(np.array((0, 255), np.uint8), 4), (1200, 112))
    for pixels in (clouds, grain, stripes):
        assert straightened(pixels).image.pixels is pixels


def test_few_words_are_unchanged() -> None:
    """A stamp at an angle does not turn its page."""
    paper = Image.new("L", (900, 1200), 255)
    ImageDraw.Draw(paper).text(
        (300, 500), "RECEIVED 3 May", fill=0, font=ImageFont.load_default(40)
    )
    pixels = np.asarray(paper.rotate(20, fillcolor=255))
    assert straightened(pixels).image.pixels is pixels


def test_illegible_letters_are_not_rotated() -> None:
    """Mirrored text is illegible in both orientations."""
    pixels = np.ascontiguousarray(printed()[:, ::-1])
    assert straightened(pixels).image.pixels is pixels
    assert straightened(turned(pixels, 180)).rotation == 0


def test_aligned_letters_are_not_sideways_text() -> None:
    """Text of a typewriter, or Chinese, is told by its gaps: narrower in lines than between."""
    paper = Image.new("L", (1000, 1400), 255)
    pen = ImageDraw.Draw(paper)
    letters = np.random.default_rng(3).choice(list("abdeghkmnopqsuvwz"), (44, 30))
    for (row, column), letter in np.ndenumerate(letters):
        pen.text(
            (80 + 22 * column, 80 + 28 * row), str(letter), fill=0, font=ImageFont.load_default(26)
        )
    pixels = np.asarray(paper)
    assert straightened(pixels).rotation == 0
    assert straightened(turned(pixels, 90)).rotation in {90, 270}


def test_wide_gaps_between_digits_are_not_sideways_text() -> None:
    """They are nearer to what is below them than to the next, but make no lines down the page."""
    paper = Image.new("L", (1000, 1400), 255)
    pen = ImageDraw.Draw(paper)
    for place in itertools.product(range(80, 900, 60), range(100, 1300, 100)):
        pen.text(place, str(sum(place) % 89 + 10), fill=0, font=ImageFont.load_default(26))
    pixels = np.asarray(paper)
    assert straightened(pixels).image.pixels is pixels


def _dotted(width: int, height: int, x: float, y: float) -> Pixels:
    """Make a page of one round dot."""
    page = np.full((height, width), 255, np.uint8)
    # OpenCV counts from the middles of pixels, in sixteenths.
    centre = round((x - 0.5) * 16), round((y - 0.5) * 16)
    return np.asarray(cv2.circle(page, centre, 5 * 16, 0, -1, cv2.LINE_AA, 4), np.uint8)


def _middle_of_dot(page: Pixels) -> tuple[float, float]:
    rows, columns = np.indices(page.shape) + 0.5
    weight = 255.0 - page
    return float((columns * weight).sum() / weight.sum()), float(
        (rows * weight).sum() / weight.sum()
    )


@settings(max_examples=50)
@given(
    size=st.tuples(st.integers(60, 400), st.integers(60, 400)),
    rotation=st.sampled_from([0, 90, 180, 270]),
    skew=st.floats(-45, 45),
    spot=st.tuples(st.floats(0.2, 0.8), st.floats(0.2, 0.8)),
)
def test_positions_are_mapped_back_to_the_original(
    size: tuple[int, int], rotation: int, skew: float, spot: tuple[float, float]
) -> None:
    """There and back again is within a tenth of a pixel, for any turn of any page."""
    original = _dotted(*size, spot[0] * size[0], spot[1] * size[1])
    image = base.PageImage(
        images_pixels.deskew(images_pixels.rotate_quarter(original, rotation), skew), 300
    )
    matrix = images_pixels.make_inverse_transform(rotation, skew, (image.width, image.height), size)
    place = pages.Point(*_middle_of_dot(image.pixels))
    (line,) = orientation.UprightPage(image, rotation, skew, matrix).map_to_original(
        [pages.Line("o", (place, place, place, place), 1.0)]
    )
    assert line.quad[0] == pytest.approx(_middle_of_dot(original), abs=0.1)


def test_lines_and_words_are_placed_on_the_original() -> None:
    """Whatever is found on the upright page is where it is on the scan, words included."""
    result = straightened(turned(printed(), 90))
    box = pages.Box(100, 200, 300, 240).quad()
    (line,) = result.map_to_original(
        [pages.Line("a b", box, 0.9, (pages.Word("a", box, 0.8),), block=3)]
    )
    assert line.quad == pytest.approx(
        np.array([(1200, 100), (1200, 300), (1160, 300), (1160, 100)]), abs=1e-9
    )
    assert line.words[0].quad == line.quad
    assert (line.text, line.confidence, line.block) == ("a b", 0.9, 3)


def test_lines_of_an_unchanged_page_keep_their_positions() -> None:
    """Nothing is moved, not even by rounding."""
    lines = [pages.Line("a", pages.Box(0.1, 0.2, 0.3, 0.4).quad(), 1.0)]
    assert list(straightened(printed()).map_to_original(lines)) == lines
