"""The invisible text of a searchable PDF stands over the words, and can be taken out of it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import pikepdf
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pagewarden.exports import base
from pagewarden.exports.pdf import searchable
from pagewarden.ocr import pages
from tests.exports import readers, samples

NEAR = 3.0  # points


class Layout(NamedTuple):
    """How a page is turned, cropped and measured, and how its words stand."""

    rotate: int
    crop: tuple[float, float, float, float] | None
    user_unit: float
    degrees: float


quarters = st.sampled_from([0, 90, 180, 270])
crops = st.sampled_from([None, (50, 70, 500, 650), (10, 0, 560, 600)])
layouts = st.builds(
    Layout,
    quarters,
    crops,
    st.sampled_from([1.0, 2.5]),
    st.builds(float.__add__, quarters.map(float), st.floats(-14, 14)),
)


@readers.needs_poppler
@given(layouts)
@settings(max_examples=25, deadline=None)
@example(Layout(0, None, 1.0, 0.0))
@example(Layout(90, (50, 70, 500, 650), 2.5, 184.0))
@example(Layout(270, None, 1.0, 90.0))
def test_pdftotext_finds_each_word_in_its_place(layout: Layout) -> None:
    """Every edge of the box of every word is within 3 points, on pages however turned."""
    with tempfile.TemporaryDirectory() as folder:
        page, target = _searchable(Path(folder), layout)
        (found,) = readers.poppler_words(target)
    width, height = _shown(layout)
    scale = (width / page.width, height / page.height)
    expected = {
        word.text: [
            edge * scale[count % 2] for count, edge in enumerate(pages.bounding_box(word.quad))
        ]
        for line in page.lines
        for word in line.words
    }
    assert {word.text: list(word.box) for word in found} == {
        text: pytest.approx(box, abs=NEAR) for text, box in expected.items()
    }


@given(layouts, st.floats(0, 360))
@settings(max_examples=25, deadline=None)
@example(Layout(0, None, 1.0, 0.0), 0.0)
@example(Layout(90, (50, 70, 500, 650), 2.5, 180.0), 45.0)
@example(Layout(90, (-20, 10, 560, 800), 1.0, 0.0), 0.0)  # Poppler forgets such a crop box
def test_pdfium_finds_each_word_in_its_place(layout: Layout, degrees: float) -> None:
    """The same by another reader, for words that stand at any angle."""
    with tempfile.TemporaryDirectory() as folder:
        page, target = _searchable(Path(folder), layout._replace(degrees=degrees))
        found = readers.pdfium_words(target, 1, page.width, page.height)
    near = NEAR / 72 * samples.DPI
    assert {word.text: list(word.box) for word in found} == {
        word.text: pytest.approx(pages.bounding_box(word.quad), abs=near)
        for line in page.lines
        for word in line.words
    }


@pytest.mark.parametrize("degrees", [0, 0.3, 5, 90, 270])
def test_pdfium_copies_words_and_lines(degrees: float, tmp_path: Path) -> None:
    """Words have spaces between them, lines are lines, whichever way the page lies."""
    page, target = _paragraph(tmp_path, degrees)
    assert readers.pdfium_text(target) == [page.text]


@readers.needs_poppler
@pytest.mark.parametrize("degrees", [0, 0.3, 90, 180, 270])
def test_poppler_copies_words_and_lines(degrees: float, tmp_path: Path) -> None:
    """The same by another reader, which puts lines that lie on their side in another order."""
    page, target = _paragraph(tmp_path, degrees)
    lines = readers.poppler_text(target).replace("\f", "").split("\n")
    assert sorted(filter(None, lines)) == sorted(page.text.split("\n"))


def test_a_script_that_runs_backwards_is_copied_in_reading_order(tmp_path: Path) -> None:
    """Hebrew with a number in it comes out as it was read."""
    line = samples.line_of(
        samples.word("שלום", 400, 100),
        samples.word("פרק12.5", 300, 100),
        samples.word("עולם", 200, 100),
    )
    target = tmp_path / "target.pdf"
    searchable.write_searchable_pdf(
        samples.scan(tmp_path / "scan.pdf"), [samples.page(line)], target
    )
    assert readers.pdfium_text(target) == ["שלום פרק12.5 עולם"]


@given(st.lists(samples.lines(), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_every_character_can_be_found_in_the_pdf(lines: list[pages.Line]) -> None:
    """Decoded by its own map, the stream spells every line, for any characters and boxes."""
    page = samples.page(*lines)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "target.pdf"
        searchable.write_searchable_pdf(samples.scan(Path(folder) / "scan.pdf"), [page], target)
        with pikepdf.open(target) as document:
            shown = _decoded(document.pages[0])
    expected = [sorted(part) for line in base.clean_page(page).lines for part in _with_spaces(line)]
    assert [sorted(text) for text in shown] == expected


def _searchable(folder: Path, layout: Layout) -> tuple[pages.ReadPage, Path]:
    """Make a page of a few words that stand well apart, and its searchable PDF."""
    width, height = (round(points / 72 * samples.DPI) for points in _shown(layout))
    names = ["Anfang", "Ergebnisse", "mit", "Fußnoten", "naïve", "Unterschrift"]
    words = [
        samples.word(
            name, width / 2 * (count % 2) + 90, height * (1 + count // 2) / 4, layout.degrees
        )
        for count, name in enumerate(names)
    ]
    lines = tuple(samples.line_of(word) for word in words)
    page = pages.ReadPage(1, width, height, samples.DPI, pages.TextSource.OCR, lines)
    source = samples.scan(
        folder / "scan.pdf", rotate=layout.rotate, crop=layout.crop, user_unit=layout.user_unit
    )
    target = folder / "target.pdf"
    searchable.write_searchable_pdf(source, [page], target)
    return page, target


def _shown(layout: Layout) -> tuple[float, float]:
    """Work out how large the page is for whoever looks at it."""
    left, bottom, right, top = layout.crop or (0, 0, 576, 720)
    width, height = right - max(left, 0), min(top, 720) - bottom
    return (height, width) if layout.rotate in {90, 270} else (width, height)


def _paragraph(folder: Path, degrees: float) -> tuple[pages.ReadPage, Path]:
    """Make a page of three lines and its searchable PDF."""
    rows = [["Every", "line", f"number{row}", "stays", "whole"] for row in range(3)]
    lines = [samples.line_of(*_row(texts, row, degrees)) for row, texts in enumerate(rows)]
    page, target = samples.page(*lines), folder / "target.pdf"
    searchable.write_searchable_pdf(samples.scan(folder / "scan.pdf"), [page], target)
    return page, target


def _row(texts: list[str], row: int, degrees: float) -> list[pages.Word]:
    """Set words one after the other along a line that is turned about the middle of the page."""
    middle = complex(samples.WIDTH, samples.HEIGHT) / 2
    words, left = [], 130.0
    for text in texts:
        box = pages.Box(left, 450 + 40 * row, left + 12 * len(text), 474 + 40 * row)
        words.append(pages.Word(text, samples.turned(box, degrees, about=middle), 0.9))
        left += 12 * (len(text) + 1)
    return words


def _with_spaces(line: pages.Line) -> list[str]:
    """Give each word of a tidied line with the space that follows it."""
    words = list(base.iterate_words(line))
    follows = [space for space, _ in words[1:]] + [False]
    return [word.text + " " * space for (_, word), space in zip(words, follows, strict=True)]


def _decoded(pdf_page: pikepdf.Page) -> list[str]:
    """Decode what our layer shows, by the map of its font."""
    if not isinstance(pdf_page.obj.Contents, pikepdf.Array):
        return []
    (font,) = (font for name, font in pdf_page.obj.Resources.Font.items() if "Pagewarden" in name)
    characters = {
        code: bytes.fromhex(character).decode("utf-16-be")
        for code, character in re.findall(
            r"^<(\w{4})> <(\w+)>$", font.ToUnicode.read_bytes().decode(), re.MULTILINE
        )
    }
    shown = re.findall(r"<(\w+)> Tj", pdf_page.obj.Contents[0].read_bytes().decode())
    return ["".join(characters[code] for code in re.findall("....", text)) for text in shown]
