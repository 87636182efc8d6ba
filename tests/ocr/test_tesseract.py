from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden import errors
from pagewarden.ocr import pages
from pagewarden.ocr.engines import base, tesseract
from tests.ocr import printed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture(scope="module")
def reader() -> tesseract.TesseractEngine:
    """Load the detector once."""
    return tesseract.TesseractEngine()


@pytest.fixture
def english_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have no language but English installed."""
    data = tmp_path / "tessdata"
    data.mkdir()
    (data / "eng.traineddata").symlink_to(tesseract.find_data_folder() / "eng.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(data))
    return data


def test_printed_lines_are_read_in_their_language(reader: tesseract.TesseractEngine) -> None:
    """Umlauts come from the hint."""
    found = reader.recognise(printed.page(printed.GERMAN), base.PageHints(("deu",)))
    assert printed.text_of(found) == "\n".join(printed.GERMAN)


def test_words_have_their_printed_positions(reader: tesseract.TesseractEngine) -> None:
    """Boxes within a line become places on the page."""
    found = reader.recognise(printed.page(printed.ENGLISH, colour=True), base.PageHints(("eng",)))
    printed.assert_in_place(found, printed.ENGLISH)


def test_page_without_hint_is_read_as_english(reader: tesseract.TesseractEngine) -> None:
    """English is the default."""
    found = reader.recognise(printed.page(printed.ENGLISH), base.PageHints())
    assert printed.text_of(found) == "\n".join(printed.ENGLISH)


def test_greek_is_read(reader: tesseract.TesseractEngine) -> None:
    """PP-OCR does not support this script."""
    found = reader.recognise(printed.page(printed.GREEK), base.PageHints(("grc",)))
    assert "Πετρώνιον" in printed.text_of(found)


@pytest.mark.parametrize(("language", "lines"), [("fas", printed.PERSIAN), ("heb", printed.HEBREW)])
def test_text_from_right_to_left_is_in_logical_order(
    reader: tesseract.TesseractEngine, language: str, lines: Sequence[str]
) -> None:
    """Letters, words, brackets and numbers are as typed; positions are as printed."""
    found = reader.recognise(printed.page(lines), base.PageHints((language,)))
    assert printed.text_of(found) == "\n".join(lines)
    for line in found.lines:
        edges = [pages.bounding_box(word.quad).left for word in line.words]
        assert edges == sorted(edges, reverse=True)


def test_a_language_without_data_names_the_package_to_install(english_only: Path) -> None:
    """The message says what to do, and nothing is read in another language."""
    reader = tesseract.TesseractEngine()
    with pytest.raises(errors.EngineNotInstalled, match="apt install tesseract-ocr-chi-tra"):
        reader.recognise(printed.page(["x"]), base.PageHints(("chi_tra",)))
    assert english_only.is_dir()


def test_missing_language_data_is_reported_on_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The constructor raises."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    with pytest.raises(errors.EngineNotInstalled, match="TESSDATA_PREFIX"):
        tesseract.TesseractEngine()


def test_tessdata_prefix_may_be_the_parent_folder(
    english_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in older versions of Tesseract."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(english_only.parent))
    assert tesseract.LineReader().languages == {"eng"}


def test_other_names_of_a_language_are_understood(english_only: Path) -> None:
    """'frk' is black letter under any of its names."""
    (english_only / "deu_latf.traineddata").symlink_to(english_only / "eng.traineddata")
    assert tesseract.LineReader().choose_languages(["frk", "eng"]) == "deu_latf+eng"


@given(st.lists(st.sampled_from(["eng", "deu", "xyz", "tlh", "fra", "grc"])))
def test_only_installed_languages_are_chosen_best_first(wanted: list[str]) -> None:
    """At most two, in the order they were given, and None when there is none."""
    reader = tesseract.LineReader()
    chosen = reader.choose_languages(wanted)
    installed = [name for name in wanted if name in reader.languages]
    assert (chosen or "").split("+") == (installed[:2] or [""])
