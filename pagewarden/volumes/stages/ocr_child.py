"""Stage 3, in the sandbox: recognise the text of the line images of a page.

An engine that reads only whole pages gets all lines of a page below each other on one sheet.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyewts  # type: ignore[import-untyped]  # it ships no types

from pagewarden.ocr import bidi, pages, pipeline
from pagewarden.ocr.engines import base, rapid
from pagewarden.ocr.images import pixels
from pagewarden.ocr.languages import accept_any_character
from pagewarden.ocr.lines import crops, recognition
from pagewarden.volumes.stages import child_protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pagewarden.ocr.sandbox import protocol, tasks

_SHEET_MARGIN = 24  # pixels around each line
_SHEET_DPI = 300.0
_WHITE = 255
_NO_CORNERS = np.zeros((4, 2), np.float32)


class LineRecogniser:
    """Reads the lines of pages, one page after another, by the engine or a given model."""

    def __init__(
        self, *, languages: Sequence[str], wylie: bool, model: str | None, version: str
    ) -> None:
        self.version = version
        self._model = (
            recognition.Recogniser(accept_any_character, model=Path(model)) if model else None
        )
        self._hints = base.PageHints(tuple(languages))
        self._encode: Callable[[str], str] = (
            _make_wylie_encoder() if wylie else pipeline.replace_unstorable
        )

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Process the line images of a page; return the text of each."""
        lines = [
            crops.Crop(pixels.decode_jpeg_bytes(data, request.message["name"]), _NO_CORNERS)
            for data in child_protocol.split(request.message["sizes"], request.blob)
        ]
        readings = self.run_text_recognition(request.engine, lines)
        texts = [
            self._to_text(crops.fit_words_to_ink(reading, line) if reading.words else reading)
            for line, reading in zip(lines, readings, strict=True)
        ]
        return child_protocol.pack(child_protocol.TEXTS, texts)

    def run_text_recognition(
        self, engine: base.Engine, lines: Sequence[crops.Crop]
    ) -> Sequence[crops.LineReading]:
        """Read lines by the given model if there is one, otherwise by the engine."""
        if self._model is not None:
            return [rapid.discard_noise(self._model.read(line)) for line in lines]
        if isinstance(engine, base.SupportsReadLines):
            return engine.read_lines(lines, self._hints)
        return read_as_sheet(engine, lines, self._hints)

    def _to_text(self, reading: crops.LineReading) -> child_protocol.RecognisedText:
        return child_protocol.RecognisedText(
            self._encode(reading.text),
            reading.confidence,
            [
                (self._encode(word.text), word.left, word.right, word.confidence)
                for word in reading.words
            ],
        )


def read_as_sheet(
    engine: base.Engine, lines: Sequence[crops.Crop], hints: base.PageHints
) -> list[crops.LineReading]:
    """Read lines on one sheet; text belongs to the line nearest in height."""
    if not lines:
        return []
    sheet, tops = _draw_sheet([line.grey for line in lines])
    found = engine.recognise(base.PageImage(sheet, _SHEET_DPI), hints).lines
    middles = tops + np.array([line.pixels.shape[0] / 2 for line in lines])
    found_by_line: list[list[pages.Line]] = [[] for _ in lines]
    for text in found:
        box = pages.bounding_box(text.quad)
        nearest = int(np.abs(middles - (box.top + box.bottom) / 2).argmin())
        found_by_line[nearest].append(text)
    return [
        _to_reading(texts, line.pixels.shape[1])
        for texts, line in zip(found_by_line, lines, strict=True)
    ]


def _draw_sheet(
    lines: Sequence[NDArray[np.uint8]],
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Draw lines on a white sheet; return it with the top of each line."""
    heights = np.array([line.shape[0] + _SHEET_MARGIN for line in lines])
    tops = np.cumsum(heights) - heights + _SHEET_MARGIN
    width = max(line.shape[1] for line in lines) + 2 * _SHEET_MARGIN
    sheet = np.full((int(heights.sum()) + _SHEET_MARGIN, width), _WHITE, np.uint8)
    for top, line in zip(tops, lines, strict=True):
        sheet[top : top + line.shape[0], _SHEET_MARGIN : _SHEET_MARGIN + line.shape[1]] = line
    return sheet, tops.astype(np.float64)


def _to_reading(found: Sequence[pages.Line], width: int) -> crops.LineReading:
    """Join texts beside each other into one reading, in the direction of their script."""
    leftwards = bidi.is_right_to_left("".join(line.text for line in found))
    ordered = sorted(found, key=lambda line: pages.bounding_box(line.quad).left, reverse=leftwards)
    spans = [_to_span(word, width) for line in ordered for word in _get_words(line)]
    return crops.LineReading(tuple(spans))


def _get_words(line: pages.Line) -> Sequence[pages.Word]:
    return line.words or [pages.Word(line.text, line.quad, line.confidence)]


def _to_span(word: pages.Word, width: int) -> crops.WordSpan:
    box = pages.bounding_box(word.quad)
    left, right = (min(max((x - _SHEET_MARGIN) / width, 0.0), 1.0) for x in (box.left, box.right))
    return crops.WordSpan(word.text, word.confidence, word.confidence, left, right)


def _make_wylie_encoder() -> Callable[[str], str]:
    converter = pyewts.pyewts()
    return lambda text: str(converter.toWylie(pipeline.replace_unstorable(text))).strip()
