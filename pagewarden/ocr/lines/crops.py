"""Crops of single lines, their readings, and exact word positions.

Recognisers know the positions of words only to about a letter; the white between the words in the
image gives the exact positions.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr import bidi, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


# Pixels. Both recognisers scale lines to less than this anyway (48 and 36).
_MAX_HEIGHT = 64

# A line that is taller than wide by this factor runs down the page.
_VERTICAL = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """The pixels of a line, and its corners on the page, clockwise from where its text begins."""

    pixels: NDArray[np.uint8]
    corners: NDArray[np.float32]

    @property
    def grey(self) -> NDArray[np.uint8]:
        """The pixels in grey."""
        if self.pixels.ndim == 2:
            return self.pixels
        return np.asarray(cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY), np.uint8)

    def quad_between(self, left: float, right: float) -> pages.Quad:
        """Return the corners of the part between two positions along the line, 0 to 1."""
        top_left, top_right, bottom_right, bottom_left = self.corners
        corners = (
            top_left + (top_right - top_left) * left,
            top_left + (top_right - top_left) * right,
            bottom_left + (bottom_right - bottom_left) * right,
            bottom_left + (bottom_right - bottom_left) * left,
        )
        first, second, third, fourth = (pages.Point(*corner.tolist()) for corner in corners)
        return first, second, third, fourth


def cut_line(pixels: NDArray[np.uint8], corners: NDArray[np.float32]) -> Crop:
    """Cut out the line within four corners, clockwise from the top left, and make it level."""
    width, height = _measure_size(corners)
    if height > _VERTICAL * width:
        corners = np.roll(corners, -1, axis=0)
        width, height = height, width
    factor = min(_MAX_HEIGHT / max(height, 1.0), 1.0)
    source, source_corners = _downscale_around(pixels, corners, factor)
    right, bottom = max(round(width * factor), 1), max(round(height * factor), 1)
    target = np.array([[0, 0], [right, 0], [right, bottom], [0, bottom]], np.float32)
    level = cv2.warpPerspective(
        source,
        cv2.getPerspectiveTransform(source_corners, target),
        (right, bottom),
        flags=cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return Crop(np.asarray(level, np.uint8), corners)


def _measure_size(corners: NDArray[np.float32]) -> tuple[float, float]:
    return (
        float(np.linalg.norm(corners[0] - corners[1])),
        float(np.linalg.norm(corners[0] - corners[3])),
    )


def _downscale_around(
    pixels: NDArray[np.uint8], corners: NDArray[np.float32], factor: float
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Scale down the surroundings of a line first if warping alone would skip pixels."""
    if factor > 0.75:
        return pixels, corners
    left, top = np.maximum(np.floor(corners.min(axis=0)).astype(int) - 2, 0)
    right, bottom = np.ceil(corners.max(axis=0)).astype(int) + 2
    around = pixels[top:bottom, left:right]
    if not around.size:
        return pixels, corners
    small = cv2.resize(around, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    scale = np.array(small.shape[1::-1]) / np.array(around.shape[1::-1])
    return np.asarray(small, np.uint8), ((corners - (left, top)) * scale).astype(np.float32)


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A word between two positions along its line, 0 to 1; confidence is 0 to 1 too.

    weakest is the lowest confidence of a letter, if the recogniser reports it; in_dictionary tells
    whether the recogniser found the word in a dictionary of its language.
    """

    text: str
    confidence: float
    weakest: float
    left: float
    right: float
    in_dictionary: bool = False


@dataclass(frozen=True, slots=True)
class LineReading:
    """The words of one line, in reading order."""

    words: tuple[WordSpan, ...]

    @property
    def text(self) -> str:
        """The words, separated by spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def confidence(self) -> float:
        """The confidence of the words, weighted by length."""
        letters = sum(len(word.text) for word in self.words)
        return sum(word.confidence * len(word.text) for word in self.words) / max(letters, 1)

    def to_line(self, crop: Crop) -> pages.Line:
        """Return the line at its position on the page, from its first word to its last."""
        words = tuple(
            pages.Word(word.text, crop.quad_between(word.left, word.right), word.confidence)
            for word in self.words
        )
        left = min((word.left for word in self.words), default=0.0)
        right = max((word.right for word in self.words), default=1.0)
        return pages.Line(self.text, crop.quad_between(left, right), self.confidence, words)


def make_reading(words: Sequence[WordSpan]) -> LineReading:
    """Make a reading of words whose letters a model has read from left to right."""
    kinds = " ".join(map(_find_direction_letter, words))
    order = [index // 2 for index in bidi.reorder_positions(kinds) if index % 2 == 0]
    if not any(map(bidi.is_rtl_letter, kinds)):
        return LineReading(tuple(words))
    return LineReading(tuple(_to_logical_order(words[index]) for index in order))


def _find_direction_letter(word: WordSpan) -> str:
    """Return a letter that has the direction of the word."""
    letters = word.text
    return next(
        filter(bidi.is_rtl_letter, letters), next(filter(bidi.is_ltr_letter, letters), letters[0])
    )


def _to_logical_order(word: WordSpan) -> WordSpan:
    has_rtl = any(map(bidi.is_rtl_letter, word.text))
    return replace(word, text=bidi.reorder(word.text)) if has_rtl else word


def build_lines(line_crops: Sequence[Crop], readings: Sequence[LineReading]) -> list[pages.Line]:
    """Return the lines at their positions on the page, without empty ones."""
    return [
        fit_words_to_ink(reading, crop).to_line(crop)
        for crop, reading in zip(line_crops, readings, strict=True)
        if reading.text
    ]


def fit_words_to_ink(reading: LineReading, crop: Crop) -> LineReading:
    """Extend words from white to white; their order stays, also from right to left."""
    words = list(reading.words)
    ink_columns = _find_ink_columns(crop.grey)
    by_position = sorted(
        range(len(words)), key=lambda index: words[index].left + words[index].right
    )
    edges = [0, *_find_gaps([words[index] for index in by_position], ink_columns), len(ink_columns)]
    for index, begin, end in zip(by_position, edges, edges[1:], strict=False):
        words[index] = _fit_word(words[index], ink_columns, begin, end)
    return LineReading(tuple(words))


def find_ink_extent(crop: Crop) -> tuple[float, float]:
    """Return where the ink of a line begins and ends, 0 to 1; the whole line without ink."""
    ink_columns = _find_ink_columns(crop.grey)
    ink = np.flatnonzero(ink_columns)
    if not len(ink):
        return 0.0, 1.0
    return float(ink[0] / len(ink_columns)), float((ink[-1] + 1) / len(ink_columns))


def _find_ink_columns(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell for each column whether it has ink."""
    _, ink = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    return np.asarray(ink.any(axis=0), np.bool_)


def _find_gaps(words: Sequence[WordSpan], ink_columns: NDArray[np.bool_]) -> Iterator[int]:
    """Find the middle of the widest white between each two words."""
    for word, following in itertools.pairwise(words):
        begin, end = (
            int((each.left + each.right) / 2 * len(ink_columns)) for each in (word, following)
        )
        white = _find_widest_run(~ink_columns[begin:end])
        between = (word.right + following.left) / 2 * len(ink_columns)
        yield int(begin + white) if white is not None else int(between)


def _find_widest_run(white: NDArray[np.bool_]) -> float | None:
    """Return the middle of the longest run."""
    steps = np.diff(np.r_[0, white.astype(np.int8), 0])
    begins, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    if not len(begins):
        return None
    best = int((ends - begins).argmax())
    return float(begins[best] + ends[best]) / 2


def _fit_word(word: WordSpan, ink_columns: NDArray[np.bool_], begin: int, end: int) -> WordSpan:
    ink = np.flatnonzero(ink_columns[begin:end])
    if not len(ink):
        return word
    left, right = begin + ink[0], begin + ink[-1] + 1
    return replace(word, left=float(left / len(ink_columns)), right=float(right / len(ink_columns)))
