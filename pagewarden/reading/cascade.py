"""The engine 'cascade': Tesseract reads every line, PP-OCR once more those it is unsure of.

Tesseract's networks take a third of the time. Where both have read a line, the likelier words of
the two are taken, which is better than either; docs/decisions/0005 has the figures.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.reading import engine, guessing, rapid, scripts, voting
from pagewarden.reading.lines import placing, tess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pagewarden.reading.lines import crops, readings, recognition

# Lines that Tesseract reads with less confidence than this are read again.
PROFILES: Mapping[str, float] = MappingProxyType({"fast": 0.75, "balanced": 0.90, "accurate": 1.01})

# A page that PP-OCR reads with less confidence than this is in a script it does not know: it reads
# Greek at 0.85, Tibetan below 0.7 and black letter at 0.95.
_FOREIGN = 0.9
_CONVINCING = 0.6


class Cascade:
    """Reads with both engines; with PP-OCR alone where Tesseract or its data is missing."""

    name = "cascade"

    def __init__(self, profile: str) -> None:
        if profile not in PROFILES:
            raise errors.SettingsError(
                f"there is no profile {profile!r}; choose one of {', '.join(PROFILES)}"
            )
        self._profile = profile
        self._rapid = rapid.Rapid()
        self._tess = _tesseract()

    @property
    def version(self) -> str:
        """Name the profile and the versions of both engines."""
        parts = [self._profile, self._rapid.version]
        return ", ".join([*parts, self._tess.version] if self._tess else parts)

    def prepare(self, hints: engine.Hints) -> None:
        """Load Tesseract's networks of a language, for all processes forked from now on."""
        if self._tess and (language := self._tess.choose(hints.languages)):
            self._tess.load(language)

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Find the lines and read them."""
        cropped = self._rapid.cut(image)
        return engine.Recognised(placing.lines(cropped, self.read_lines(cropped, hints)))

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: engine.Hints
    ) -> list[readings.Reading]:
        """Read lines of one page."""
        languages = hints.languages or self._guess(lines)
        strong = self._rapid.recogniser(lines, engine.Hints(tuple(languages)))
        return [self._read(crop, strong, languages) for crop in lines]

    def _read(
        self, crop: crops.Crop, strong: recognition.Recogniser, languages: Sequence[str]
    ) -> readings.Reading:
        script = scripts.of(languages)
        language = self._tess.choose(languages) if self._tess else None
        if self._tess is None or language is None or script is scripts.Script.IDEOGRAPHS:
            return rapid.without_noise(strong.read(crop))
        fast = self._tess.read(crop, language)
        if script is scripts.Script.OTHER or fast.confidence >= PROFILES[self._profile]:
            return fast
        return voting.combine(rapid.without_noise(strong.read(crop)), fast)

    def _guess(self, cropped: Sequence[crops.Crop]) -> Sequence[str]:
        """Guess the language of a page nobody said anything about; nothing if in doubt."""
        if self._tess is None or not cropped:
            return ()
        read = self._rapid.sample(cropped)
        if sum(found.confidence for found in read) < _FOREIGN * len(read):
            return self._try_foreign(self._tess, rapid.longest(cropped)[0])
        guess = guessing.language(" ".join(found.text for found in read))
        return (guess,) if guess else ()

    def _try_foreign(self, reader: tess.LineReader, crop: crops.Crop) -> Sequence[str]:
        """Read a line in every language of another script, and see which is surest of itself."""
        sure = {
            language: reader.read(crop, language).confidence
            for language in reader.languages
            if scripts.of((language,)) is scripts.Script.OTHER
        }
        best = max(sure, key=lambda language: sure[language], default=None)
        return (best,) if best and sure[best] >= _CONVINCING else ()


def _tesseract() -> tess.LineReader | None:
    try:
        return tess.LineReader()
    except errors.EngineMissing:
        return None
