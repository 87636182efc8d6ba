"""Engine tesseract: Tesseract, with its models for each language, on lines found by PP-OCR."""

from __future__ import annotations

import importlib
import os
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2

from pagewarden import errors
from pagewarden.ocr.engines import base, rapid
from pagewarden.ocr.lines import crops, detection, ppocr_models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


DEFAULT_LANGUAGE = "eng"

_DATA_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
_SUFFIX = ".traineddata"
_ORIENTATION_DATA = "osd"

# Tesseract's names of languages; the first one installed is used.
_ALIASES = {
    "frk": ("frk", "deu_latf", "Fraktur"),
    "nno": ("nor",),
    "nob": ("nor",),
    "zho": ("chi_sim",),
    "cmn": ("chi_sim",),
}

# Each further language takes as long again, and makes the results worse.
_MAX_LANGUAGES = 2

_RESOLUTION = 300

# By default, Tesseract reads each doubtful line again in negative.
_VARIABLES = {"tessedit_do_invert": "0"}


class LineReader:
    """Reads one line at a time; models are loaded on first use."""

    def __init__(self) -> None:
        # Threads of Tesseract would compete with other pages for the cores.
        os.environ["OMP_THREAD_LIMIT"] = "1"
        self._library = _import_tesserocr()
        self._folder = find_data_folder()
        self._loaded: dict[str, Any] = {}
        self.languages = frozenset(
            path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}")
        ) - {_ORIENTATION_DATA}
        if not self.languages:
            raise errors.EngineNotInstalled(
                f"Tesseract has no languages in {self._folder}; install some (on Debian: apt "
                "install tesseract-ocr-eng tesseract-ocr-deu)"
            )

    @property
    def version(self) -> str:
        """The version of Tesseract."""
        return str(self._library.tesseract_version()).split("\n", maxsplit=1)[0]

    def choose_languages(self, languages: Iterable[str]) -> str | None:
        """Return the installed languages in the form of Tesseract; None if there are none."""
        named = (_ALIASES.get(language, (language,)) for language in languages)
        found = (next((n for n in names if n in self.languages), None) for names in named)
        return "+".join([name for name in found if name][:_MAX_LANGUAGES]) or None

    def read(self, crop: crops.Crop, language: str) -> crops.LineReading:
        """Read a line in a language that `choose_languages` has returned."""
        api, grey = self.load(language), crop.grey
        height, width = grey.shape
        api.SetImageBytes(grey.tobytes(), width, height, 1, width)
        api.SetSourceResolution(_RESOLUTION)
        api.Recognize()
        words = tuple(self._read_words(api, width))
        api.Clear()
        return crops.LineReading(words)

    def _read_words(self, api: Any, width: int) -> Iterator[crops.WordSpan]:  # noqa: ANN401  # untyped
        """Assemble words from single letters, which are in logical order.

        Tesseract returns the letters of a whole word from left to right, even in Hebrew.
        """
        level = self._library.RIL
        position, more = api.GetIterator(), True
        while more and not position.Empty(level.WORD):
            left, _, right, _ = position.BoundingBox(level.WORD)
            confidence = position.Confidence(level.WORD) / 100
            in_dictionary = bool(position.WordIsFromDictionary())
            letters = [position.GetUTF8Text(level.SYMBOL)]
            while (more := position.Next(level.SYMBOL)) and not position.IsAtBeginningOf(
                level.WORD
            ):
                letters.append(position.GetUTF8Text(level.SYMBOL))
            if text := "".join(letters).strip():
                yield crops.WordSpan(
                    text=unicodedata.normalize("NFC", text),
                    confidence=confidence,
                    weakest=confidence,
                    left=left / width,
                    right=right / width,
                    in_dictionary=in_dictionary,
                )

    def load(self, language: str) -> Any:  # noqa: ANN401  # untyped
        """Return the models of a language, loaded once."""
        if language not in self._loaded:
            # RAW_LINE: the line detection of Tesseract would cut off accents.
            api = self._library.PyTessBaseAPI(
                path=str(self._folder),
                lang=language,
                psm=self._library.PSM.RAW_LINE,
                oem=self._library.OEM.LSTM_ONLY,
            )
            for name, value in _VARIABLES.items():
                api.SetVariable(name, value)
            self._loaded[language] = api
        return self._loaded[language]


def _import_tesserocr() -> Any:  # noqa: ANN401  # untyped
    try:
        return importlib.import_module("tesserocr")
    except ImportError as exc:
        raise errors.EngineNotInstalled(
            "Tesseract is not installed; install it: pip install tesserocr"
        ) from exc


def find_data_folder() -> Path:
    """Find the folder of language data: TESSDATA_PREFIX, or the default folders."""
    prefix = os.environ.get("TESSDATA_PREFIX")
    folders: Sequence[str] = (prefix, f"{prefix}/tessdata") if prefix else _DATA_FOLDERS
    for folder in map(Path, folders):
        if any(folder.glob(f"*{_SUFFIX}")):
            return folder
    raise errors.EngineNotInstalled(
        f"Tesseract's language data is not in {' or '.join(folders)}; install it (on Debian: "
        "apt install tesseract-ocr-eng) or set TESSDATA_PREFIX to its folder"
    )


class TesseractEngine:
    """Finds lines with the PP-OCR detector and reads each with Tesseract.

    The line detection of Tesseract is slower and fails more often.
    """

    name = "tesseract"

    def __init__(self) -> None:
        cv2.setNumThreads(1)
        self._reader = LineReader()
        self._detector = detection.Detector(rapid.LONG_SIDE)

    @property
    def version(self) -> str:
        """The versions of Tesseract and of the detector."""
        return f"{self._reader.version}, {ppocr_models.get_version()}"

    def prepare(self, hints: base.PageHints) -> None:
        """Load the models of a language, for all processes forked from now on."""
        if language := self._reader.choose_languages(hints.languages or (DEFAULT_LANGUAGE,)):
            self._reader.load(language)

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Find and read the lines, as English if there is no hint."""
        quads = self._detector.find(image.pixels)
        cropped = [crops.cut_line(image.pixels, quad) for quad in quads]
        return base.RecognitionResult(crops.build_lines(cropped, self.read_lines(cropped, hints)))

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: base.PageHints
    ) -> list[crops.LineReading]:
        """Read lines, as English if there is no hint."""
        codes = hints.languages or (DEFAULT_LANGUAGE,)
        language = self._reader.choose_languages(codes)
        if language is None:
            raise errors.EngineNotInstalled(
                f"Tesseract has no data for {' or '.join(codes)}; install it (on Debian: apt "
                f"install tesseract-ocr-{codes[0].replace('_', '-')}) or choose another engine"
            )
        return [self._reader.read(crop, language) for crop in lines]
