"""Engine cascade: Tesseract reads every line, and PP-OCR those with low confidence.

Tesseract's models take a third of the time. If both have read a line, the more likely words are
used, which is better than either engine; docs/decisions/0005 has the figures.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.ocr import languages as ocr_languages
from pagewarden.ocr.engines import base, rapid, tesseract
from pagewarden.ocr.lines import crops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pagewarden.ocr.lines import recognition

# PP-OCR also reads the lines that Tesseract reads with less confidence than this.
PROFILES: Mapping[str, float] = MappingProxyType({"fast": 0.75, "balanced": 0.90, "accurate": 1.01})

# A page that PP-OCR reads with less confidence than this is in an unknown script: it reads Greek
# with 0.85, Tibetan below 0.7 and black letter with 0.95.
_MIN_KNOWN_SCRIPT = 0.9
# A language of such a script is accepted if Tesseract reads a line with this confidence.
_MIN_GUESS = 0.6

# A logistic model of whether Tesseract's words are nearer the truth than PP-OCR's, fitted on half
# of the documents of a corpus of real scans. More features (mean confidences, accents, punctuation,
# lengths) made it no better on documents it had not seen; see docs/decisions/0005.
_BIAS = -0.22
_STRONG = -3.86
_FAST = 2.52
_IN_DICTIONARY = 0.84

# Used as the confidence where an engine found no word.
_NO_WORD = 0.7


def merge_readings(
    strong_reading: crops.LineReading, fast_reading: crops.LineReading
) -> crops.LineReading:
    """Merge two readings of a line: words that agree, and otherwise the more likely ones."""
    merged: list[crops.WordSpan] = []
    for ours, others in _align(strong_reading.words, fast_reading.words):
        if [word.text for word in ours] == [word.text for word in others]:
            merged.extend(_merge_equal(ours, others))
        else:
            merged.extend(others if _prefer_fast(ours, others) else ours)
    return crops.LineReading(tuple(merged))


def _align(
    strong: Sequence[crops.WordSpan], fast: Sequence[crops.WordSpan]
) -> Iterator[tuple[Sequence[crops.WordSpan], Sequence[crops.WordSpan]]]:
    """Pair the words of the same part of the line, word by word if possible."""
    ours, others = ([word.text for word in words] for words in (strong, fast))
    matcher = difflib.SequenceMatcher(None, ours, others, autojunk=False)
    for _, begin, end, fast_begin, fast_end in matcher.get_opcodes():
        if end - begin == fast_end - fast_begin:
            for one, other in zip(strong[begin:end], fast[fast_begin:fast_end], strict=True):
                yield [one], [other]
        else:
            yield strong[begin:end], fast[fast_begin:fast_end]


def _merge_equal(
    words: Sequence[crops.WordSpan], other_words: Sequence[crops.WordSpan]
) -> Iterator[crops.WordSpan]:
    for one, other in zip(words, other_words, strict=True):
        yield replace(one, confidence=max(one.confidence, other.confidence))


def _prefer_fast(
    strong_reading: Sequence[crops.WordSpan], fast_reading: Sequence[crops.WordSpan]
) -> bool:
    known = (
        sum(word.in_dictionary for word in fast_reading) / len(fast_reading)
        if fast_reading
        else 0.0
    )
    evidence = (
        _BIAS
        + _STRONG * _find_min_confidence(strong_reading)
        + _FAST * _find_min_confidence(fast_reading)
        + _IN_DICTIONARY * known
    )
    return evidence > 0


def _find_min_confidence(words: Sequence[crops.WordSpan]) -> float:
    return min((word.weakest for word in words), default=_NO_WORD)


class CascadeEngine:
    """Reads with both engines, or with PP-OCR alone if Tesseract or its data is not installed."""

    name = "cascade"

    def __init__(self, profile: str) -> None:
        if profile not in PROFILES:
            raise errors.SettingsError(
                f"unknown profile {profile!r}; choose one of {', '.join(PROFILES)}"
            )
        self._profile = profile
        self._rapid = rapid.RapidEngine()
        self._tesseract = _load_tesseract()

    @property
    def version(self) -> str:
        """The profile and the versions of both engines."""
        parts = [self._profile, self._rapid.version]
        return ", ".join([*parts, self._tesseract.version] if self._tesseract else parts)

    def prepare(self, hints: base.PageHints) -> None:
        """Load Tesseract's models of a language, for all processes forked from now on."""
        if self._tesseract and (language := self._tesseract.choose_languages(hints.languages)):
            self._tesseract.load(language)

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Find the lines and read them."""
        cropped = self._rapid.cut_lines(image)
        return base.RecognitionResult(crops.build_lines(cropped, self.read_lines(cropped, hints)))

    def read_lines(
        self, lines: Sequence[crops.Crop], hints: base.PageHints
    ) -> list[crops.LineReading]:
        """Read lines of one page."""
        languages = hints.languages or self._guess_language(lines)
        strong = self._rapid.choose_recogniser(lines, base.PageHints(tuple(languages)))
        return [self._read(crop, strong, languages) for crop in lines]

    def _read(
        self, crop: crops.Crop, strong: recognition.Recogniser, languages: Sequence[str]
    ) -> crops.LineReading:
        script = ocr_languages.find_script(languages)
        language = self._tesseract.choose_languages(languages) if self._tesseract else None
        if self._tesseract is None or language is None or script is ocr_languages.Script.IDEOGRAPHS:
            return rapid.discard_noise(strong.read(crop))
        fast = self._tesseract.read(crop, language)
        if script is ocr_languages.Script.OTHER or fast.confidence >= PROFILES[self._profile]:
            return fast
        return merge_readings(rapid.discard_noise(strong.read(crop)), fast)

    def _guess_language(self, line_crops: Sequence[crops.Crop]) -> Sequence[str]:
        """Guess the language of a page without hints; empty if uncertain."""
        if self._tesseract is None or not line_crops:
            return ()
        read = self._rapid.read_sample(line_crops)
        if sum(found.confidence for found in read) < _MIN_KNOWN_SCRIPT * len(read):
            return self._try_other_scripts(self._tesseract, rapid.find_longest_lines(line_crops)[0])
        guess = ocr_languages.guess_language(" ".join(found.text for found in read))
        return (guess,) if guess else ()

    def _try_other_scripts(self, reader: tesseract.LineReader, crop: crops.Crop) -> Sequence[str]:
        """Read a line in every language of another script; return the most confident one."""
        confidences = {
            language: reader.read(crop, language).confidence
            for language in reader.languages
            if ocr_languages.find_script((language,)) is ocr_languages.Script.OTHER
        }
        best = max(confidences, key=lambda language: confidences[language], default=None)
        return (best,) if best and confidences[best] >= _MIN_GUESS else ()


def _load_tesseract() -> tesseract.LineReader | None:
    try:
        return tesseract.LineReader()
    except errors.EngineNotInstalled:
        return None
