from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.reading import engine, pages, tesseract
from pagewarden.reading.lines import tess
from tests.reading import printed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture(scope="module")
def reader() -> tesseract.Tesseract:
    """Load the detector once."""
    return tesseract.Tesseract()


@pytest.fixture
def english_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have no language but English installed."""
    data = tmp_path / "tessdata"
    data.mkdir()
    (data / "eng.traineddata").symlink_to(tess.folder() / "eng.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(data))
    return data


def test_printed_lines_are_read_in_their_language(reader: tesseract.Tesseract) -> None:
    """Umlauts come from the hint."""
    found = reader.recognise(printed.page(printed.GERMAN), engine.Hints(("deu",)))
    assert printed.text_of(found) == "\n".join(printed.GERMAN)


def test_words_stand_where_they_are_printed(reader: tesseract.Tesseract) -> None:
    """Boxes within a line become places on the page."""
    found = reader.recognise(printed.page(printed.ENGLISH, colour=True), engine.Hints(("eng",)))
    printed.assert_in_place(found, printed.ENGLISH)


def test_without_a_hint_the_page_is_taken_for_english(reader: tesseract.Tesseract) -> None:
    """Something has to be assumed."""
    found = reader.recognise(printed.page(printed.ENGLISH), engine.Hints())
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)


def test_greek_is_read(reader: tesseract.Tesseract) -> None:
    """Scripts that PP-OCR does not know are what Tesseract is for."""
    found = reader.recognise(printed.page(printed.GREEK), engine.Hints(("grc",)))
    assert "Πετρώνιον" in printed.text_of(found)


@pytest.mark.parametrize(("language", "lines"), [("fas", printed.PERSIAN), ("heb", printed.HEBREW)])
def test_text_from_right_to_left_is_in_logical_order(
    reader: tesseract.Tesseract, language: str, lines: Sequence[str]
) -> None:
    """Letters, words, brackets and numbers come as they are typed; words stand as printed."""
    found = reader.recognise(printed.page(lines), engine.Hints((language,)))
    assert printed.text_of(found) == "\n".join(lines)
    for line in found.lines:
        edges = [pages.bounds(word.quad).left for word in line.words]
        assert edges == sorted(edges, reverse=True)


def test_a_language_without_data_names_the_package_to_install(english_only: Path) -> None:
    """The message says what to do, and nothing is read in another language."""
    reader = tesseract.Tesseract()
    with pytest.raises(errors.EngineMissing, match="apt install tesseract-ocr-chi-tra"):
        reader.recognise(printed.page(["x"]), engine.Hints(("chi_tra",)))
    assert english_only.is_dir()


def test_no_data_at_all_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that cannot read anything is not made."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    with pytest.raises(errors.EngineMissing, match="TESSDATA_PREFIX"):
        tesseract.Tesseract()


def test_the_prefix_may_be_the_folder_above(
    english_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions of Tesseract wanted the folder that holds tessdata."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(english_only.parent))
    assert tess.LineReader().languages == {"eng"}


def test_other_names_of_a_language_are_understood(english_only: Path) -> None:
    """Whoever says 'frk' means black letter, whatever its data is called here."""
    (english_only / "deu_latf.traineddata").symlink_to(english_only / "eng.traineddata")
    assert tess.LineReader().choose(["frk", "eng"]) == "deu_latf+eng"


@given(st.lists(st.sampled_from(["eng", "deu", "xyz", "tlh", "fra", "grc"])))
def test_only_installed_languages_are_chosen_best_first(wanted: list[str]) -> None:
    """At most two, in the order they were given, and None when there is none."""
    reader = tess.LineReader()
    chosen = reader.choose(wanted)
    installed = [name for name in wanted if name in reader.languages]
    assert (chosen or "").split("+") == (installed[:2] or [""])
