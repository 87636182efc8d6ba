from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.ocr import languages as ocr_languages
from pagewarden.ocr.engines import base, cascade, rapid
from pagewarden.ocr.lines import crops
from tests.ocr import printed

if TYPE_CHECKING:
    from pathlib import Path

_PROFILES = tuple(cascade.PROFILES)


@pytest.fixture(scope="module")
def readers() -> dict[str, cascade.CascadeEngine]:
    """Load every profile once."""
    return {profile: cascade.CascadeEngine(profile) for profile in _PROFILES}


def _word(text: str, weakest: float, *, at: float = 0.0, listed: bool = False) -> crops.WordSpan:
    return crops.WordSpan(text, weakest, weakest, at, at + 0.1, listed)


def _reading(*words: crops.WordSpan) -> crops.LineReading:
    return crops.LineReading(words)


@pytest.mark.parametrize("profile", _PROFILES)
def test_every_profile_reads_print(readers: dict[str, cascade.CascadeEngine], profile: str) -> None:
    """Clean print comes back letter by letter, with its words in place."""
    found = readers[profile].recognise(printed.page(printed.GERMAN), base.PageHints(("deu",)))
    assert printed.text_of(found) == "\n".join(printed.GERMAN)
    printed.assert_in_place(found, printed.GERMAN)


def test_greek_page_without_hint_is_read_by_tesseract(
    readers: dict[str, cascade.CascadeEngine],
) -> None:
    """PP-OCR has low confidence there, and Tesseract has not."""
    found = readers["balanced"].recognise(printed.page(printed.GREEK), base.PageHints())
    assert "Πετρώνιον" in printed.text_of(found)


def test_page_without_hints_is_read(
    readers: dict[str, cascade.CascadeEngine],
) -> None:
    """The language is guessed by its common words."""
    found = readers["fast"].recognise(printed.page(printed.GERMAN), base.PageHints())
    assert printed.text_of(found) == "\n".join(printed.GERMAN)


def test_an_empty_page_has_no_lines(readers: dict[str, cascade.CascadeEngine]) -> None:
    """There is no text to guess a language from."""
    assert readers["fast"].recognise(printed.page([" "]), base.PageHints()).lines == []


def test_without_tesseract_pp_ocr_reads_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing second engine makes a profile slower, not useless."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    alone = cascade.CascadeEngine("balanced")
    image, hints = printed.page(printed.ENGLISH), base.PageHints(("eng",))
    assert alone.recognise(image, hints).lines == rapid.RapidEngine().recognise(image, hints).lines


def test_an_unknown_profile_is_refused() -> None:
    """The message lists the known profiles."""
    with pytest.raises(errors.SettingsError, match="fast, balanced, accurate"):
        cascade.CascadeEngine("sloppy")


def test_versions_differ_by_profile(readers: dict[str, cascade.CascadeEngine]) -> None:
    """Pages of two profiles never mix."""
    assert len({reader.version for reader in readers.values()}) == len(_PROFILES)


def test_more_confident_engine_wins_a_differing_word() -> None:
    """Equal words are kept; of differing words the more likely one is used."""
    strong = _reading(_word("Der", 0.99), _word("Fundus", 0.3), _word("bellt", 0.99))
    fast = _reading(_word("Der", 0.9), _word("Hund", 0.96, listed=True), _word("belt", 0.4))
    assert cascade.merge_readings(strong, fast).text == "Der Hund bellt"


def test_word_of_one_engine_only_is_decided_by_confidence() -> None:
    """A misread speck is dropped; a confident word is kept."""
    strong = _reading(_word("ein", 0.99), _word("Wort", 0.99))
    fast = _reading(_word("|", 0.2), _word("ein", 0.9))
    assert cascade.merge_readings(strong, fast).text == "ein Wort"


def test_agreement_raises_confidence() -> None:
    """An equal word gets the higher of both confidences."""
    (word,) = cascade.merge_readings(_reading(_word("gut", 0.6)), _reading(_word("gut", 0.9))).words
    assert word.confidence == 0.9


_words = st.lists(
    st.builds(_word, st.text("abc", min_size=1, max_size=3), st.floats(0, 1), listed=st.booleans()),
    max_size=6,
).map(lambda words: _reading(*words))


@given(_words, _words)
def test_vote_only_uses_words_of_the_engines(
    strong: crops.LineReading, fast: crops.LineReading
) -> None:
    """Every word of the result is of one of the two, and there are no more than both have."""
    texts = [word.text for word in cascade.merge_readings(strong, fast).words]
    assert set(texts) <= {word.text for word in (*strong.words, *fast.words)}
    assert len(texts) <= len(strong.words) + len(fast.words)


@given(_words)
def test_equal_readings_merge_to_one(reading: crops.LineReading) -> None:
    """Merging a reading with itself does not change it."""
    assert cascade.merge_readings(reading, reading) == reading


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (" ".join(printed.ENGLISH), "eng"),
        (" ".join(printed.GERMAN), "deu"),
        ("Il ne faut pas que les enfants soient dans la rue pour une heure", "fra"),
        ("La casa de los padres no es lo que el niño quería para su madre", "spa"),
        ("1234 ZZZ 5678 XK", None),
        ("Müller, Basel. Fr. 150", None),
    ],
)
def test_language_is_guessed_by_common_words(text: str, language: str | None) -> None:
    """There is no guess if there are too few."""
    assert ocr_languages.guess_language(text) == language


@pytest.mark.parametrize(
    ("languages", "script"),
    [
        ((), None),
        (("eng", "bod"), ocr_languages.Script.LATIN),
        (("grc",), ocr_languages.Script.OTHER),
        (("jpn",), ocr_languages.Script.IDEOGRAPHS),
    ],
)
def test_first_language_determines_the_script(
    languages: tuple[str, ...], script: ocr_languages.Script | None
) -> None:
    """A page of two languages is read by the letters of the first."""
    assert ocr_languages.find_script(languages) is script
