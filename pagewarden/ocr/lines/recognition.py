"""Recognise lines with the PP-OCR recogniser or with a given model of the same form."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr.lines import crops, ppocr_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


HEIGHT = 48
_MIN_WIDTH = 48

STRIDE = 8
"""Number of image columns per output position."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledLine:
    """A line scaled for the model; padding makes it longer by the factor stretch."""

    planes: NDArray[np.float32]
    stretch: float

    @property
    def width(self) -> int:
        """The width in pixels."""
        return int(self.planes.shape[2])


class Recogniser:
    """Reads lines, one at a time on a CPU: with one thread that is faster than in batches.

    Only characters that is_wanted accepts are read. model is an ONNX file with another model, which
    reads all its characters.
    """

    def __init__(
        self,
        is_wanted: Callable[[str], bool],
        device: ppocr_models.Device = ppocr_models.ONE_CORE,
        *,
        model: Path | None = None,
    ) -> None:
        self._session, self._characters = (
            ppocr_models.load_custom_recogniser(model, device)
            if model
            else ppocr_models.load_recogniser(is_wanted, device)
        )
        self._input = self._session.get_inputs()[0].name

    def read(self, crop: crops.Crop) -> crops.LineReading:
        """Read a line."""
        return self.read_batch([scale_line(crop.pixels)])[0]

    def read_batch(self, lines: Sequence[ScaledLine]) -> list[crops.LineReading]:
        """Read lines of the same width in a batch."""
        (outputs,) = self._session.run(
            None, {self._input: np.stack([line.planes for line in lines])}
        )
        return [
            crops.make_reading(list(self._decode_words(output, line.stretch)))
            for output, line in zip(outputs, lines, strict=True)
        ]

    def _decode_words(
        self, output: NDArray[np.float32], stretch: float
    ) -> Iterator[crops.WordSpan]:
        """Decode the output: drop blanks and repetitions, split words at spaces."""
        best = output.argmax(axis=1)
        begins = np.flatnonzero((best != 0) & np.r_[True, best[1:] != best[:-1]])
        letters = [
            (self._characters[best[at]], float(output[at, best[at]]), float(at)) for at in begins
        ]
        for is_space, group in itertools.groupby(letters, lambda letter: letter[0].isspace()):
            if not is_space:
                yield _make_word(list(group), stretch / len(best))


def _make_word(letters: list[tuple[str, float, float]], column: float) -> crops.WordSpan:
    """Make a word that extends half a letter beyond the middles of its first and last letter."""
    first, last = letters[0][2] + 0.5, letters[-1][2] + 0.5
    half = (last - first) / (len(letters) - 1) / 2 if len(letters) > 1 else 1.0
    return crops.WordSpan(
        text="".join(letter for letter, _, _ in letters),
        confidence=sum(confidence for _, confidence, _ in letters) / len(letters),
        weakest=min(confidence for _, confidence, _ in letters),
        left=max((first - half) * column, 0.0),
        right=min((last + half) * column, 1.0),
    )


def round_up_to_stride(width: int) -> int:
    """Round a width up to whole strides, the least padding that the model needs."""
    return -(-width // STRIDE) * STRIDE


def scale_line(
    pixels: NDArray[np.uint8], *, pad_width: Callable[[int], int] = round_up_to_stride
) -> ScaledLine:
    """Scale a line, and pad its width as pad_width says, always to whole strides."""
    height, width = pixels.shape[:2]
    scaled = max(round(width * HEIGHT / height), 1)
    padded = pad_width(max(scaled, _MIN_WIDTH))
    interpolation = cv2.INTER_AREA if height > HEIGHT else cv2.INTER_LINEAR
    image = cv2.resize(pixels, (scaled, HEIGHT), interpolation=interpolation).astype(np.float32)
    planes = np.zeros((3, HEIGHT, padded), np.float32)
    planes[:, :, :scaled] = ppocr_models.to_planes(image)
    return ScaledLine(planes, padded / scaled)
