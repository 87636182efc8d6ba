"""Reads lines with the PP-OCR recogniser."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading.lines import networks, readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from pagewarden.reading.lines import crops

HEIGHT = 48
_LEAST_WIDTH = 48

STRIDE = 8
"""One column of the answer stands for so many of the image."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A line as the network wants it; with what was added it is stretch times as long."""

    planes: NDArray[np.float32]
    stretch: float

    @property
    def width(self) -> int:
        """Count the columns."""
        return int(self.planes.shape[2])


class Recogniser:
    """Reads lines: one at a time, unless there is a GPU to be kept busy.

    At one thread that is faster than batches, and nothing is padded. Only wanted characters are
    read. model is an ONNX file with another network, which reads all it knows.
    """

    def __init__(
        self,
        wanted: Callable[[str], bool],
        device: networks.Device = networks.ONE_CORE,
        *,
        model: Path | None = None,
    ) -> None:
        self._session, self._characters = (
            networks.own_recogniser(model, device) if model else networks.recogniser(wanted, device)
        )
        self._input = self._session.get_inputs()[0].name

    def read(self, crop: crops.Crop) -> readings.Reading:
        """Read a line."""
        return self.read_all([scale(crop.pixels)])[0]

    def read_all(self, lines: Sequence[Scaled]) -> list[readings.Reading]:
        """Read lines of one width together."""
        (answers,) = self._session.run(
            None, {self._input: np.stack([line.planes for line in lines])}
        )
        return [
            readings.of_visual(list(self._words(answer, line.stretch)))
            for answer, line in zip(answers, lines, strict=True)
        ]

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


def to_stride(width: int) -> int:
    """Add as little as the network can do with."""
    return -(-width // STRIDE) * STRIDE


def scale(pixels: NDArray[np.uint8], *, padded: Callable[[int], int] = to_stride) -> Scaled:
    """Scale a line, and add to its width what padded asks for: always whole strides."""
    height, width = pixels.shape[:2]
    scaled = max(round(width * HEIGHT / height), 1)
    whole = padded(max(scaled, _LEAST_WIDTH))
    way = cv2.INTER_AREA if height > HEIGHT else cv2.INTER_LINEAR
    image = cv2.resize(pixels, (scaled, HEIGHT), interpolation=way).astype(np.float32)
    planes = np.zeros((3, HEIGHT, whole), np.float32)
    planes[:, :, :scaled] = networks.planes(image)
    return Scaled(planes, whole / scaled)
