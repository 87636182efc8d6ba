"""Reads lines with Tesseract's networks, one for each language."""

from __future__ import annotations

import importlib
import os
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.reading.lines import readings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pagewarden.reading.lines import crops

FALLBACK = "eng"

_PLACES = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)
_SUFFIX = ".traineddata"
_NO_LANGUAGE = "osd"

# What others call languages, in Tesseract's names; the first one installed is taken.
_NAMES = {
    "frk": ("frk", "deu_latf", "Fraktur"),
    "nno": ("nor",),
    "nob": ("nor",),
    "zho": ("chi_sim",),
    "cmn": ("chi_sim",),
}

# More languages at a time take as many times as long, and read worse.
_MOST_LANGUAGES = 2

_RESOLUTION = 300

# It would read each doubtful line once more in negative.
_VARIABLES = {"tessedit_do_invert": "0"}


class LineReader:
    """Reads one line at a time; networks are loaded when they are first needed, and kept."""

    def __init__(self) -> None:
        # Its own threads would take the cores from the other pages.
        os.environ["OMP_THREAD_LIMIT"] = "1"
        self._library = _library()
        self._folder = folder()
        self._loaded: dict[str, Any] = {}
        self.languages = frozenset(
            path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}")
        ) - {_NO_LANGUAGE}
        if not self.languages:
            raise errors.EngineMissing(
                f"Tesseract has no languages in {self._folder}; install some, on Debian: "
                "apt install tesseract-ocr-eng tesseract-ocr-deu"
            )

    @property
    def version(self) -> str:
        """Name the version of the program."""
        return str(self._library.tesseract_version()).split("\n", maxsplit=1)[0]

    def choose(self, languages: Iterable[str]) -> str | None:
        """Put those of the languages that are installed in Tesseract's form, None if none is."""
        named = (_NAMES.get(language, (language,)) for language in languages)
        found = (next((n for n in names if n in self.languages), None) for names in named)
        return "+".join([name for name in found if name][:_MOST_LANGUAGES]) or None

    def read(self, crop: crops.Crop, language: str) -> readings.Reading:
        """Read a line in a language that choose has given."""
        api, grey = self.load(language), crop.grey
        height, width = grey.shape
        api.SetImageBytes(grey.tobytes(), width, height, 1, width)
        api.SetSourceResolution(_RESOLUTION)
        api.Recognize()
        words = tuple(self._words(api, width))
        api.Clear()
        return readings.Reading(words)

    def _words(self, api: Any, width: int) -> Iterator[readings.Span]:  # noqa: ANN401  # untyped
        """Spell words letter by letter, which come in logical order.

        The text of a whole word has its letters from left to right, in Hebrew and Arabic too.
        """
        level = self._library.RIL
        at, more = api.GetIterator(), True
        while more and not at.Empty(level.WORD):
            left, _, right, _ = at.BoundingBox(level.WORD)
            sure = at.Confidence(level.WORD) / 100
            listed = bool(at.WordIsFromDictionary())
            letters = [at.GetUTF8Text(level.SYMBOL)]
            while (more := at.Next(level.SYMBOL)) and not at.IsAtBeginningOf(level.WORD):
                letters.append(at.GetUTF8Text(level.SYMBOL))
            if text := "".join(letters).strip():
                yield readings.Span(
                    text=unicodedata.normalize("NFC", text),
                    confidence=sure,
                    weakest=sure,
                    left=left / width,
                    right=right / width,
                    listed=listed,
                )

    def load(self, language: str) -> Any:  # noqa: ANN401  # untyped
        """Have the networks of a language ready."""
        if language not in self._loaded:
            # A line as it is: Tesseract's own search for lines in it cuts off accents.
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


def _library() -> Any:  # noqa: ANN401  # untyped
    try:
        return importlib.import_module("tesserocr")
    except ImportError as exc:
        raise errors.EngineMissing(
            "Tesseract is not installed; install it: pip install tesserocr"
        ) from exc


def folder() -> Path:
    """Find the folder of language data, as TESSDATA_PREFIX says or where it usually is."""
    given = os.environ.get("TESSDATA_PREFIX")
    places: Sequence[str] = (given, f"{given}/tessdata") if given else _PLACES
    for place in map(Path, places):
        if any(place.glob(f"*{_SUFFIX}")):
            return place
    raise errors.EngineMissing(
        f"Tesseract's language data is not in {' or '.join(places)}; install it (on Debian: "
        "apt install tesseract-ocr-eng) or set TESSDATA_PREFIX to its folder"
    )
