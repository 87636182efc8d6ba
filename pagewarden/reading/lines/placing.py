"""Where exactly the words of a line begin and end.

Readers know only roughly: to about a letter. The white between the words shows it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading.lines import readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pagewarden.reading import pages
    from pagewarden.reading.lines import crops


def lines(cropped: Sequence[crops.Crop], found: Sequence[readings.Reading]) -> list[pages.Line]:
    """Put what was read where it stands on the page; what nothing was read from is left out."""
    return [
        settle(reading, crop).line(crop)
        for crop, reading in zip(cropped, found, strict=True)
        if reading.text
    ]


def settle(reading: readings.Reading, crop: crops.Crop) -> readings.Reading:
    """Let words reach from white to white; their order stays, also where it is from the right."""
    words = list(reading.words)
    inked = _inked(crop.grey)
    across = sorted(range(len(words)), key=lambda index: words[index].left + words[index].right)
    edges = [0, *_gaps([words[index] for index in across], inked), len(inked)]
    for index, begin, end in zip(across, edges, edges[1:], strict=False):
        words[index] = _fitted(words[index], inked, begin, end)
    return readings.Reading(tuple(words))


def extent(crop: crops.Crop) -> tuple[float, float]:
    """Tell from where to where there is ink along a line, 0 to 1; all of it where there is none."""
    inked = _inked(crop.grey)
    ink = np.flatnonzero(inked)
    if not len(ink):
        return 0.0, 1.0
    return float(ink[0] / len(inked)), float((ink[-1] + 1) / len(inked))


def _inked(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell of each column whether there is ink in it."""
    _, ink = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    return np.asarray(ink.any(axis=0), np.bool_)


def _gaps(words: Sequence[readings.Span], inked: NDArray[np.bool_]) -> Iterator[int]:
    """Find between each two words the middle of the widest white."""
    for word, following in itertools.pairwise(words):
        begin, end = (int((each.left + each.right) / 2 * len(inked)) for each in (word, following))
        white = _widest(~inked[begin:end])
        between = (word.right + following.left) / 2 * len(inked)
        yield int(begin + white) if white is not None else int(between)


def _widest(white: NDArray[np.bool_]) -> float | None:
    """Give the middle of the longest run."""
    steps = np.diff(np.r_[0, white.astype(np.int8), 0])
    begins, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    if not len(begins):
        return None
    best = int((ends - begins).argmax())
    return float(begins[best] + ends[best]) / 2


def _fitted(word: readings.Span, inked: NDArray[np.bool_], begin: int, end: int) -> readings.Span:
    ink = np.flatnonzero(inked[begin:end])
    if not len(ink):
        return word
    left, right = begin + ink[0], begin + ink[-1] + 1
    return replace(word, left=float(left / len(inked)), right=float(right / len(inked)))
