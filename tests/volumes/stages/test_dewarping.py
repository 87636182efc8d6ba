"""Curved pages, and the splines that set them straight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.volumes import dewarping
from pagewarden.volumes.artifacts import rows
from tests.ocr import printed
from tests.volumes.stages import books

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PLACES = st.tuples(st.integers(0, 2000), st.integers(0, 3000))


@given(st.dictionaries(PLACES, st.integers(-50, 50), min_size=4, max_size=40))
def test_a_spline_stays_between_the_heights_it_was_laid_through(
    heights: dict[tuple[int, int], int],
) -> None:
    """Also far from them: no page is thrown about."""
    spline = dewarping.fit_spline([[x, y, height] for (x, y), height in heights.items()])
    found = spline.compute_heights(
        np.array([[0, 0], [2000, 3000], [-500, 9000], [1000, 1500]], float)
    )
    assert (found >= min(heights.values()) - 1e-6).all()
    assert (found <= max(heights.values()) + 1e-6).all()


@given(
    slopes=st.tuples(st.floats(-0.1, 0.1), st.floats(-0.1, 0.1)),
    places=st.sets(PLACES, min_size=5, max_size=30),
)
def test_a_plane_is_a_spline(slopes: tuple[float, float], places: set[tuple[int, int]]) -> None:
    """Nothing is bent that need not be."""
    points = [[x, y, slopes[0] * x + slopes[1] * y] for x, y in sorted(places)]
    found = dewarping.fit_spline(points).compute_heights(np.array(points)[:, :2])
    assert found == pytest.approx([height for *_, height in points], abs=0.5)


def _outlines(pixels: NDArray[np.uint8]) -> list[NDArray[np.int32]]:
    """Find lines the simple way: letters grown together sideways."""
    ink = (pixels < 128).astype(np.uint8)
    joined = cv2.morphologyEx(ink, cv2.MORPH_CLOSE, np.ones((5, 41), np.uint8))
    contours, _ = cv2.findContours(joined, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return [np.asarray(contour, np.int32).reshape(-1, 2) for contour in contours]


def _curvature(pixels: NDArray[np.uint8]) -> float:
    found = dewarping.measure_curvature(dewarping.find_midlines(_outlines(pixels), pixels.shape[1]))
    assert found is not None
    return found


def test_curvature_tells_curved_pages_from_straight_and_slanted_ones() -> None:
    """A slant is set right otherwise."""
    flat = printed.page(printed.ENGLISH * 3, size=30).pixels
    slanted = cv2.warpAffine(
        flat,
        np.array(((1, 0, 0), (0.03, 1, 0)), np.float32),
        flat.shape[::-1],
        borderMode=cv2.BORDER_REPLICATE,
    )
    straight = _curvature(flat), _curvature(np.asarray(slanted, np.uint8))
    assert max(straight) < 0.25
    assert _curvature(books.bent(flat, 20)) > 3 * max(straight)


def test_a_straightened_page_is_straight() -> None:
    """Each line stands level, and short ones stand where long ones beside them do."""
    text = [*printed.ENGLISH, "A shorter line.", *printed.GERMAN]
    flat = printed.page(text, size=30).pixels
    curved = books.bent(flat, 25)
    lines = dewarping.find_midlines(_outlines(curved), curved.shape[1])
    points = dewarping.find_shifts(lines, curved.shape[1])
    assert _curvature(dewarping.straighten(curved, points)) < _curvature(curved) / 4


def test_one_line_that_grew_together_with_another_does_not_bend_the_page() -> None:
    """Half of it seems to be nearly a line further down; all others have one shape."""
    x = np.linspace(100, 900, 12)
    shape = -20 * np.sin(np.pi * x / 1000)
    lines = [dewarping.Midline(x, 100 + 50 * n + shape, 18.0) for n in range(12)]
    lines[4] = dewarping.Midline(x, lines[4].y + np.where(x > 500, 16, 0), 18.0)
    points = np.array(dewarping.find_shifts(lines, 1000))
    for place in x.round(2):
        assert np.ptp(points[points[:, 0] == place, 2]) < 3
    assert len(points) >= 11 * 12


def test_a_page_with_few_lines_has_no_shape() -> None:
    """It is left alone."""
    pixels = printed.page(printed.ENGLISH[:2]).pixels
    assert (
        dewarping.measure_curvature(dewarping.find_midlines(_outlines(pixels), pixels.shape[1]))
        is None
    )
    assert dewarping.measure_curvature([]) is None


@given(
    angle=st.sampled_from([0.0, 90.0, 180.0, 270.0]).flatmap(
        lambda quarter: st.floats(quarter - 5, quarter + 5)
    ),
    size=st.tuples(st.integers(10, 3000), st.integers(10, 3000)),
)
def test_the_way_back_keeps_distances_and_leads_middle_to_middle(
    angle: float, size: tuple[int, int]
) -> None:
    """Whatever the page was turned by."""
    page = rows.DetectedPage(
        image_name="p", page_angle=angle, width=size[0], height=size[1],
        scaled_width=size[0], scaled_height=size[1],
        rotated_width=size[1], rotated_height=size[0],
    )  # fmt: skip
    middle, right = dewarping.OriginalMapping(page).map_points(
        [[size[1] / 2, size[0] / 2], [size[1] / 2 + 100, size[0] / 2]]
    )
    assert middle == pytest.approx([size[0] / 2, size[1] / 2])
    assert np.hypot(*(right - middle)) == pytest.approx(100)
    turned = np.rad2deg(np.arctan2(*(right - middle)[::-1]))
    assert np.cos(np.deg2rad(turned + angle)) == pytest.approx(1)


async def test_dewarping_gives_back_the_text_of_a_curved_page(tmp_path: Path) -> None:
    """Which is lost without it."""
    text = list(printed.ENGLISH) * 3
    curved = books.bent(printed.page(text, size=24).pixels, 35)
    read = {}
    for use_tps in (False, True):
        book = books.Book(tmp_path / str(use_tps)).with_config(use_tps=use_tps)
        book.add_pixels("p.png", curved)
        await book.run("line_detection", "line_extraction", "ocr")
        read[use_tps] = sum(line in text for line in books.text_of(book.texts()))
        assert book.detected()[0].dewarping_applied is use_tps
    assert read[True] >= 0.8 * len(text)
    assert read[False] < len(text) // 2
