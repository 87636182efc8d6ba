"""The engine 'rapid': the PP-OCR networks of RapidOCR, on lines cut from the full page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2

from pagewarden.reading import engine, scripts
from pagewarden.reading.lines import crops, detection, networks, placing, readings, recognition

if TYPE_CHECKING:
    from collections.abc import Sequence

# What is read with less confidence is a speck or a picture.
_LEAST_CONFIDENCE = 0.5

# Pixels of the longer side. More finds no more of the text on real pages and takes longer.
LONG_SIDE = 960

# So many of the longest lines show what a page nobody said anything about is written in.
_SAMPLE = 5


class Rapid:
    """Finds lines and reads them by PP-OCRv6."""

    name = "rapid"

    def __init__(self, device: networks.Device = networks.ONE_CORE) -> None:
        cv2.setNumThreads(1)
        self._detector = detection.Detector(LONG_SIDE, device)
        self._latin = recognition.Recogniser(scripts.is_latin, device)
        self._full = recognition.Recogniser(scripts.is_any, device)

    @property
    def version(self) -> str:
        """Name the version of package and models."""
        return networks.version()

    def cut(self, image: engine.PageImage) -> list[crops.Crop]:
        """Find the lines of a page and cut them out."""
        found = self._detector.find(image.pixels)
        return [crops.cut(image.pixels, corners) for corners in found]

    def recogniser(
        self, lines: Sequence[crops.Crop], hints: engine.Hints
    ) -> recognition.Recogniser:
        """Choose the network: with ideographs only where they are wanted or found."""
        script = scripts.of(hints.languages)
        if script is None:
            text = "".join(found.text for found in self.sample(lines))
            script = scripts.Script.LATIN if all(map(scripts.is_latin, text)) else None
        return self._latin if script is scripts.Script.LATIN else self._full

    def sample(self, lines: Sequence[crops.Crop]) -> list[readings.Reading]:
        """Read the longest lines, with whatever characters there are."""
        return self.read(longest(lines), self._full)

    def read(
        self, lines: Sequence[crops.Crop], chosen: recognition.Recogniser
    ) -> list[readings.Reading]:
        """Read lines of a page."""
        return [chosen.read(crop) for crop in lines]

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Find and read the lines."""
        cropped = self.cut(image)
        return engine.Recognised(placing.lines(cropped, self.read_lines(cropped, hints)))

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: engine.Hints
    ) -> list[readings.Reading]:
        """Read lines of one page."""
        return [without_noise(read) for read in self.read(lines, self.recogniser(lines, hints))]


def longest(lines: Sequence[crops.Crop]) -> list[crops.Crop]:
    """Choose lines that tell much of a page."""
    return sorted(lines, key=lambda crop: -crop.pixels.shape[1])[:_SAMPLE]


def without_noise(found: readings.Reading) -> readings.Reading:
    """Empty a reading that is too unsure to be text."""
    return found if found.confidence >= _LEAST_CONFIDENCE else readings.Reading(())
