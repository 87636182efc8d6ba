"""Engine rapid: PP-OCR detection and recognition, on lines cut from the full page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2

from pagewarden.ocr import languages
from pagewarden.ocr.engines import base
from pagewarden.ocr.lines import crops, detection, ppocr_models, recognition

if TYPE_CHECKING:
    from collections.abc import Sequence

# Text with less confidence is noise, such as specks or pictures.
_MIN_CONFIDENCE = 0.5

LONG_SIDE = 960
"""Pixels of the longer side for detection; more takes longer and finds no more text."""

# The longest lines are read to determine the script of a page without hints.
_SAMPLE_LINES = 5


class RapidEngine:
    """Finds and reads lines with PP-OCRv6."""

    name = "rapid"

    def __init__(self, device: ppocr_models.Device = ppocr_models.ONE_CORE) -> None:
        cv2.setNumThreads(1)
        self._detector = detection.Detector(LONG_SIDE, device)
        self._latin = recognition.Recogniser(languages.is_latin, device)
        self._full = recognition.Recogniser(languages.accept_any_character, device)

    @property
    def version(self) -> str:
        """The version of the package and the models."""
        return ppocr_models.get_version()

    def cut_lines(self, image: base.PageImage) -> list[crops.Crop]:
        """Find the lines of a page and cut them out."""
        found = self._detector.find(image.pixels)
        return [crops.cut_line(image.pixels, corners) for corners in found]

    def choose_recogniser(
        self, lines: Sequence[crops.Crop], hints: base.PageHints
    ) -> recognition.Recogniser:
        """Choose the model: with ideographs only if the hints or the sample require it."""
        script = languages.find_script(hints.languages)
        if script is None:
            text = "".join(read.text for read in self.read_sample(lines))
            script = languages.Script.LATIN if all(map(languages.is_latin, text)) else None
        return self._latin if script is languages.Script.LATIN else self._full

    def read_sample(self, lines: Sequence[crops.Crop]) -> list[crops.LineReading]:
        """Read the longest lines, with all characters."""
        return self.read(find_longest_lines(lines), self._full)

    def read(
        self, lines: Sequence[crops.Crop], recogniser: recognition.Recogniser
    ) -> list[crops.LineReading]:
        """Read lines of one page with this model; the GPU service overrides it to batch them."""
        return [recogniser.read(crop) for crop in lines]

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Find and read the lines."""
        cropped = self.cut_lines(image)
        return base.RecognitionResult(crops.build_lines(cropped, self.read_lines(cropped, hints)))

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: base.PageHints
    ) -> list[crops.LineReading]:
        """Read lines of one page."""
        recogniser = self.choose_recogniser(lines, hints)
        return [discard_noise(reading) for reading in self.read(lines, recogniser)]


def find_longest_lines(lines: Sequence[crops.Crop]) -> list[crops.Crop]:
    """Return the longest lines, which are typical of the page."""
    return sorted(lines, key=lambda crop: -crop.pixels.shape[1])[:_SAMPLE_LINES]


def discard_noise(found: crops.LineReading) -> crops.LineReading:
    """Replace a reading with too little confidence by an empty one."""
    return found if found.confidence >= _MIN_CONFIDENCE else crops.LineReading(())
