"""Reads the lines of a page that were cut out before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyewts  # type: ignore[import-untyped]  # it ships no types

from pagewarden.reading import engine, engines, pipeline, rapid, scripts
from pagewarden.reading.lines import crops, placing, readings, recognition
from pagewarden.volumes.children import answers, parcels, pictures, sheets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pagewarden.reading.sandbox import duties, wire

_NOWHERE = np.zeros((4, 2), np.float32)


class Recognition:
    """Reads the lines of one page after another, by the engine of the sandbox or a given model."""

    def __init__(
        self, *, languages: Sequence[str], wylie: bool, model: str | None, version: str
    ) -> None:
        self.version = version
        self._own = recognition.Recogniser(scripts.is_any, model=Path(model)) if model else None
        self._hints = engine.Hints(tuple(languages))
        self._spell: Callable[[str], str] = _in_wylie() if wylie else pipeline.fit_text

    def do(self, work: duties.Work) -> tuple[wire.Message, bytes]:
        """Take the pictures of the lines; give the text of each."""
        lines = [
            crops.Crop(pictures.from_jpeg(data, work.request["name"]), _NOWHERE)
            for data in parcels.cut(work.request["sizes"], work.blob)
        ]
        read = self._read(work.reader, lines)
        texts = [
            self._text(placing.settle(found, line) if found.words else found)
            for line, found in zip(lines, read, strict=True)
        ]
        return parcels.pack(answers.TEXTS, texts)

    def _read(
        self, reader: engine.Engine, lines: Sequence[crops.Crop]
    ) -> Sequence[readings.Reading]:
        if self._own is not None:
            return [rapid.without_noise(self._own.read(line)) for line in lines]
        if isinstance(reader, engines.ReadingLines):
            return reader.read_lines(lines, self._hints)
        return sheets.read(reader, lines, self._hints)

    def _text(self, found: readings.Reading) -> answers.Text:
        return answers.Text(
            self._spell(found.text),
            found.confidence,
            [
                (self._spell(word.text), word.left, word.right, word.confidence)
                for word in found.words
            ],
        )


def _in_wylie() -> Callable[[str], str]:
    converter = pyewts.pyewts()
    return lambda text: str(converter.toWylie(pipeline.fit_text(text))).strip()
