"""Reads lines with the PP-OCR recogniser."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading.lines import networks, readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from pagewarden.reading.lines import crops

_HEIGHT = 48
_LEAST_WIDTH = 48

# One column of the answer stands for so many of the image.
_STRIDE = 8


class Recogniser:
    """Reads one line at a time: at one thread that is faster than batches, and nothing is padded.

    Only wanted characters are read.
    """

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._session, self._characters = networks.recogniser(wanted)

    def read(self, crop: crops.Crop) -> readings.Reading:
        """Read a line."""
        planes, stretch = _planes(crop.pixels)
        (answer,) = self._session.run(None, {"x": planes})
        return readings.Reading(tuple(self._words(answer[0], stretch)))

    def _words(self, answer: NDArray[np.float32], stretch: float) -> Iterator[readings.Span]:
        """Drop blanks and repetitions; spaces part words."""
        best = answer.argmax(axis=1)
        begins = np.flatnonzero((best != 0) & np.r_[True, best[1:] != best[:-1]])
        letters = [
            (self._characters[best[at]], float(answer[at, best[at]]), float(at)) for at in begins
        ]
        for is_space, group in itertools.groupby(letters, lambda letter: letter[0].isspace()):
            if not is_space:
                yield _word(list(group), stretch / len(best))


def _word(letters: list[tuple[str, float, float]], column: float) -> readings.Span:
    """Let a word reach half a letter beyond the middles of its first and last one."""
    first, last = letters[0][2] + 0.5, letters[-1][2] + 0.5
    half = (last - first) / (len(letters) - 1) / 2 if len(letters) > 1 else 1.0
    return readings.Span(
        text="".join(letter for letter, _, _ in letters),
        confidence=sum(sure for _, sure, _ in letters) / len(letters),
        weakest=min(sure for _, sure, _ in letters),
        left=max((first - half) * column, 0.0),
        right=min((last + half) * column, 1.0),
    )


def _planes(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float32], float]:
    """Scale a line as the network wants it; also how much longer than the line that is."""
    height, width = pixels.shape[:2]
    scaled = max(round(width * _HEIGHT / height), 1)
    padded = -(-max(scaled, _LEAST_WIDTH) // _STRIDE) * _STRIDE
    way = cv2.INTER_AREA if height > _HEIGHT else cv2.INTER_LINEAR
    image = cv2.resize(pixels, (scaled, _HEIGHT), interpolation=way).astype(np.float32)
    planes = np.zeros((1, 3, _HEIGHT, padded), np.float32)
    planes[0, :, :, :scaled] = networks.planes(image)
    return planes, padded / scaled
