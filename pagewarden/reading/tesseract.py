"""The engine 'tesseract': its networks for each language, on lines found by PP-OCR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2

from pagewarden import errors
from pagewarden.reading import engine, rapid
from pagewarden.reading.lines import crops, detection, networks, placing, tess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.reading.lines import readings


class Tesseract:
    """Finds lines by PP-OCR's detector and reads each by Tesseract.

    Tesseract's own search for lines costs more and goes wrong more often.
    """

    name = "tesseract"

    def __init__(self) -> None:
        cv2.setNumThreads(1)
        self._reader = tess.LineReader()
        self._detector = detection.Detector(rapid.LONG_SIDE)

    @property
    def version(self) -> str:
        """Name the version of the program and of what finds the lines."""
        return f"{self._reader.version}, {networks.version()}"

    def prepare(self, hints: engine.Hints) -> None:
        """Load the networks of a language, for all processes forked from now on."""
        if language := self._reader.choose(hints.languages or (tess.FALLBACK,)):
            self._reader.load(language)

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Find and read the lines; without a hint as English."""
        found = self._detector.find(image.pixels)
        cropped = [crops.cut(image.pixels, corners) for corners in found]
        return engine.Recognised(placing.lines(cropped, self.read_lines(cropped, hints)))

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: engine.Hints
    ) -> list[readings.Reading]:
        """Read lines; without a hint as English."""
        wanted = hints.languages or (tess.FALLBACK,)
        language = self._reader.choose(wanted)
        if language is None:
            raise errors.EngineMissing(
                f"Tesseract has no data for {' or '.join(wanted)}; install it (on Debian: apt "
                f"install tesseract-ocr-{wanted[0].replace('_', '-')}) or choose another engine"
            )
        return [self._reader.read(crop, language) for crop in lines]
