from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.reading import cascade, engine, guessing, rapid, scripts, voting
from pagewarden.reading.lines import readings
from tests.reading import printed

if TYPE_CHECKING:
    from pathlib import Path

_PROFILES = tuple(cascade.PROFILES)


@pytest.fixture(scope="module")
def readers() -> dict[str, cascade.Cascade]:
    """Load every profile once."""
    return {profile: cascade.Cascade(profile) for profile in _PROFILES}


def _word(text: str, weakest: float, *, at: float = 0.0, listed: bool = False) -> readings.Span:
    return readings.Span(text, weakest, weakest, at, at + 0.1, listed)


def _reading(*words: readings.Span) -> readings.Reading:
    return readings.Reading(words)


@pytest.mark.parametrize("profile", _PROFILES)
def test_every_profile_reads_print(readers: dict[str, cascade.Cascade], profile: str) -> None:
    """Clean print comes back letter by letter, with its words in place."""
    found = readers[profile].recognise(printed.page(printed.GERMAN), engine.Hints(("deu",)))
    assert printed.text_of(found) == "\n".join(printed.GERMAN)
    printed.assert_in_place(found, printed.GERMAN)


def test_a_page_in_greek_goes_to_tesseract_without_a_hint(
    readers: dict[str, cascade.Cascade],
) -> None:
    """PP-OCR is unsure of itself there, and Tesseract's Greek is not."""
    found = readers["balanced"].recognise(printed.page(printed.GREEK), engine.Hints())
    assert "Πετρώνιον" in printed.text_of(found)


def test_a_page_nobody_said_anything_about_is_read(readers: dict[str, cascade.Cascade]) -> None:
    """The language is guessed by its common words."""
    found = readers["fast"].recognise(printed.page(printed.GERMAN), engine.Hints())
    assert printed.text_of(found) == "\n".join(printed.GERMAN)


def test_an_empty_page_has_no_lines(readers: dict[str, cascade.Cascade]) -> None:
    """Nothing to guess a language by, and nothing to read."""
    assert readers["fast"].recognise(printed.page([" "]), engine.Hints()).lines == []


def test_without_tesseract_pp_ocr_reads_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing second engine makes a profile slower, not useless."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    alone = cascade.Cascade("balanced")
    image, hints = printed.page(printed.ENGLISH), engine.Hints(("eng",))
    assert alone.recognise(image, hints).lines == rapid.Rapid().recognise(image, hints).lines


def test_an_unknown_profile_is_refused() -> None:
    """The message lists those there are."""
    with pytest.raises(errors.SettingsError, match="fast, balanced, accurate"):
        cascade.Cascade("sloppy")


def test_versions_differ_by_profile(readers: dict[str, cascade.Cascade]) -> None:
    """Pages of two profiles never mix."""
    assert len({reader.version for reader in readers.values()}) == len(_PROFILES)


def test_the_surer_reader_wins_a_differing_word() -> None:
    """Words both agree on stay; of the others the likelier is taken, whichever reader has it."""
    strong = _reading(_word("Der", 0.99), _word("Fundus", 0.3), _word("bellt", 0.99))
    fast = _reading(_word("Der", 0.9), _word("Hund", 0.96, listed=True), _word("belt", 0.4))
    assert voting.combine(strong, fast).text == "Der Hund bellt"


def test_a_word_only_one_reader_sees_is_kept_or_dropped_by_its_confidence() -> None:
    """A speck that Tesseract takes for a stroke goes; a word that PP-OCR surely sees stays."""
    strong = _reading(_word("ein", 0.99), _word("Wort", 0.99))
    fast = _reading(_word("|", 0.2), _word("ein", 0.9))
    assert voting.combine(strong, fast).text == "ein Wort"


def test_agreement_makes_surer() -> None:
    """A word both have read is as sure as the surer of them."""
    (word,) = voting.combine(_reading(_word("gut", 0.6)), _reading(_word("gut", 0.9))).words
    assert word.confidence == 0.9


_words = st.lists(
    st.builds(_word, st.text("abc", min_size=1, max_size=3), st.floats(0, 1), listed=st.booleans()),
    max_size=6,
).map(lambda words: _reading(*words))


@given(_words, _words)
def test_a_vote_invents_nothing(strong: readings.Reading, fast: readings.Reading) -> None:
    """Every word of the result is of one of the two, and there are no more than both have."""
    texts = [word.text for word in voting.combine(strong, fast).words]
    assert set(texts) <= {word.text for word in (*strong.words, *fast.words)}
    assert len(texts) <= len(strong.words) + len(fast.words)


@given(_words)
def test_two_alike_readings_are_one(reading: readings.Reading) -> None:
    """Whoever agrees with himself changes nothing."""
    assert voting.combine(reading, reading) == reading


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
def test_a_language_is_guessed_by_its_common_words(text: str, language: str | None) -> None:
    """And not at all where there are too few of them."""
    assert guessing.language(text) == language


@pytest.mark.parametrize(
    ("languages", "script"),
    [
        ((), None),
        (("eng", "bod"), scripts.Script.LATIN),
        (("grc",), scripts.Script.OTHER),
        (("jpn",), scripts.Script.IDEOGRAPHS),
    ],
)
def test_the_first_language_names_the_script(
    languages: tuple[str, ...], script: scripts.Script | None
) -> None:
    """A page of two languages is read by the letters of the first."""
    assert scripts.of(languages) is script
