"""ALTO, PAGE and hOCR are as their specifications want them."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from pagewarden import exports
from pagewarden.ocr import pages
from tests.exports import readers, samples, schema

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

ORIGINAL = Path("nothing-is-read-from-it")
LEANING = samples.line_of(
    samples.word("Upwards", 300, 300, 90), samples.word("Aslant", 500, 500, 30)
)


@given(samples.documents())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_alto_follows_its_schema(document: list[pages.ReadPage]) -> None:
    """Elements in order, attributes of the right kind, boxes and shares within bounds."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "export"
        numbered = document or [samples.failed()]
        exports.write("alto", numbered, ORIGINAL, target, name="n", languages=["chi_sim"])
        root = readers.tree(target)
    assert schema.violations(root, schema.ALTO, readers.ALTO) == []


@given(samples.documents())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_page_by_itself_follows_the_schema_of_page(document: list[pages.ReadPage]) -> None:
    """A document of one page is a valid file."""
    for page in document:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "export"
            exports.write("page", [page], ORIGINAL, target, name="n", languages=["deu"])
            root = readers.tree(target)
        assert schema.violations(root, schema.PAGE, readers.PAGE) == []


@pytest.mark.parametrize("kind", ["alto", "page", "hocr"])
def test_ids_are_unique(kind: str, tmp_path: Path) -> None:
    """No two elements of a document share an id, and every reference leads to one."""
    root = _written(kind, tmp_path, *samples.LETTER)
    ids = Counter(
        value for element in root.iter() for key, value in element.items() if key.lower() == "id"
    )
    assert len(ids) > 10
    assert set(ids.values()) == {1}
    references = [
        element.get("regionRef") or element.get("PROCESSINGREFS") for element in root.iter()
    ]
    assert {reference for reference in references if reference} <= set(ids)


@pytest.mark.parametrize("kind", ["alto", "page", "hocr"])
def test_a_failed_page_is_there_with_its_error(kind: str, tmp_path: Path) -> None:
    """Nobody takes it for an empty page."""
    root = _written(kind, tmp_path, *samples.LETTER)
    values = " ".join(value for element in root.iter() for value in element.attrib.values())
    assert re.search(r"page \\?\"7\\?\" is <broken> & \ufffd empty", values)


def test_alto_says_how_sure_where_and_by_whom(tmp_path: Path) -> None:
    """Confidence, place, shape, baseline, unit, language and program are those of the page."""
    root = _written("alto", tmp_path, samples.page(samples.line("Hello world")))
    string = next(root.iter(f"{readers.ALTO}String"))
    line = next(root.iter(f"{readers.ALTO}TextLine"))
    page = next(root.iter(f"{readers.ALTO}Page"))
    assert string.attrib == {
        "ID": "string_1_1_1_1",
        "CONTENT": "Hello",
        "WC": "0.9",
        "HPOS": "100",
        "VPOS": "100",
        "WIDTH": "60",
        "HEIGHT": "24",
    }
    assert line.get("BASELINE") == "100,119 232,119"
    assert (page.get("WIDTH"), page.get("HEIGHT"), page.get("LANG")) == ("800", "1000", "deu")
    said = [element.text for element in next(root.iter(f"{readers.ALTO}Description")).iter()]
    assert {"pixel", "letter.pdf", "Pagewarden", "OCR"} <= set(said)


def test_page_says_how_sure_where_and_by_whom(tmp_path: Path) -> None:
    """Confidence, shape, resolution, engine, language and program are those of the page."""
    root = _written("page", tmp_path, samples.page(samples.line("Hello world")))
    word = next(root.iter(f"{readers.PAGE}Word"))
    page = next(root.iter(f"{readers.PAGE}Page"))
    (coords,) = word.iter(f"{readers.PAGE}Coords")
    (equivalent,) = word.iter(f"{readers.PAGE}TextEquiv")
    assert coords.get("points") == "100,100 160,100 160,124 100,124"
    assert equivalent.get("conf") == "0.9"
    assert page.get("imageXResolution") == "100.0"
    said = [(element.get("name"), element.get("value")) for element in root.iter()]
    program = root.findtext(f"{readers.PAGE}Metadata/{readers.PAGE}Creator")
    assert {("engine", "rapid"), ("language", "deu"), ("ocr", program)} <= set(said)


def test_hocr_says_how_sure_where_and_by_whom(tmp_path: Path) -> None:
    """Boxes, confidences, baseline, resolution, language and program are those of the page."""
    root = _written("hocr", tmp_path, samples.page(samples.line("Hello world")))
    titles = {element.get("id"): element.get("title") for element in root.iter()}
    assert titles["page_1"] == (
        'image "letter.pdf"; bbox 0 0 800 1000; ppageno 0; scan_res 100 100; '
        'x_source ocr; x_engine "rapid"'
    )
    assert titles["line_1_1_1"] == "bbox 100 100 232 124; baseline 0.0000 -4.80"
    assert titles["word_1_1_1_2"] == (
        "bbox 172 100 232 124; x_wconf 90; poly 172 100 232 100 232 124 172 124"
    )
    assert root.get("lang") == "deu"
    contents = {element.get("name"): element.get("content") for element in root.iter()}
    assert str(contents["ocr-system"]).startswith("Pagewarden ")


def test_words_that_lean_have_shapes_that_lean(tmp_path: Path) -> None:
    """The polygons are the corners of the word, beginning at the top left of its text."""
    page = samples.page(LEANING)
    alto = _written("alto", tmp_path, page)
    upwards, aslant = (
        string.find(f"{readers.ALTO}Shape/{readers.ALTO}Polygon")
        for string in alto.iter(f"{readers.ALTO}String")
    )
    assert upwards is not None
    assert aslant is not None
    assert upwards.get("POINTS") == "330,354 330,270 354,270 354,354"
    assert aslant.get("POINTS") == "499,520 561,484 573,504 511,540"


def test_hocr_tells_how_a_line_stands(tmp_path: Path) -> None:
    """A line that leans has the slope of its baseline, one that lies on its side an angle."""
    upwards = samples.turned(pages.Box(300, 300, 400, 324), 90)
    aslant = samples.turned(pages.Box(500, 500, 600, 524), 10)
    lines = [pages.Line("x", quad, 0.9) for quad in (upwards, aslant)]
    root = _written("hocr", tmp_path, samples.page(*lines))
    titles = {element.get("id"): str(element.get("title")) for element in root.iter()}
    assert titles["line_1_1_1"].endswith("textangle 90")
    slope = float(titles["line_1_1_2"].split("baseline ")[1].split()[0])
    assert slope == pytest.approx(-0.1763, abs=0.001)


def _written(kind: str, folder: Path, *document: pages.ReadPage) -> ET.Element:
    target = folder / kind
    exports.write(kind, document, ORIGINAL, target, name="letter.pdf", languages=["deu", "fra"])
    return readers.tree(target)
