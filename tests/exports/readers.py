"""Read exports back, with nothing of the code that wrote them."""

from __future__ import annotations

import ctypes
import html
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

import pypdfium2  # type: ignore[import-untyped, unused-ignore]  # it has no types
import pytest
from pypdfium2 import raw  # type: ignore[import-untyped, unused-ignore]

from pagewarden.ocr import pages

if TYPE_CHECKING:
    from pathlib import Path

ALTO = "{http://www.loc.gov/standards/alto/ns-v4#}"
PAGE = "{http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15}"
XHTML = "{http://www.w3.org/1999/xhtml}"

needs_poppler = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="pdftotext of Poppler is not installed"
)


def tree(path: Path) -> ET.Element:
    """Parse a file, which fails unless it is well-formed."""
    return ET.fromstring(path.read_bytes())  # noqa: S314  # a file that the test itself made


def text_of_txt(path: Path) -> list[str]:
    """Take the pages of a text file."""
    content = path.read_bytes().decode()
    return [part.removesuffix("\n") for part in content.split("\f")]


def text_of_json(path: Path) -> list[str]:
    """Take the pages' text of a JSON file."""
    return [page["text"] for page in json.loads(path.read_bytes())["pages"]]


def text_of_hocr(path: Path) -> list[str]:
    """Join areas, lines and whatever stands inside lines."""
    return [
        "\n\n".join(
            "\n".join("".join(line.itertext()) for line in _of_class(area, "ocr_line"))
            for area in _of_class(page, "ocr_carea")
        )
        for page in _of_class(tree(path), "ocr_page")
    ]


def text_of_alto(path: Path) -> list[str]:
    """Join blocks, lines, strings and spaces."""
    return [
        "\n\n".join(
            "\n".join(
                "".join(part.get("CONTENT", " ") for part in line if part.tag != f"{ALTO}Shape")
                for line in block.iter(f"{ALTO}TextLine")
            )
            for block in page.iter(f"{ALTO}TextBlock")
        )
        for page in tree(path).iter(f"{ALTO}Page")
    ]


def text_of_page(path: Path) -> list[str]:
    """Join regions in their reading order, each as its lines say."""
    texts = []
    for page in tree(path).iter(f"{PAGE}Page"):
        regions = {region.get("id"): region for region in page.iter(f"{PAGE}TextRegion")}
        order = sorted(
            page.iter(f"{PAGE}RegionRefIndexed"), key=lambda item: int(item.get("index", ""))
        )
        texts.append("\n\n".join(_region(regions[item.get("regionRef")]) for item in order))
    return texts


def _region(region: ET.Element) -> str:
    lines = region.iter(f"{PAGE}TextLine")
    text = "\n".join(line.findtext(f"{PAGE}TextEquiv/{PAGE}Unicode", "") for line in lines)
    assert region.findtext(f"{PAGE}TextEquiv/{PAGE}Unicode") == text
    return text


TEXT_OF = {
    "txt": text_of_txt,
    "json": text_of_json,
    "hocr": text_of_hocr,
    "alto": text_of_alto,
    "page": text_of_page,
}


class Found(NamedTuple):
    """A word on a page of a PDF, in points as a person sees the page."""

    text: str
    box: pages.Box


def poppler_words(path: Path) -> list[list[Found]]:
    """Ask pdftotext -bbox for the words of each page."""
    command = ["pdftotext", "-cropbox", "-bbox", str(path), "-"]
    output = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    return [
        [
            Found(html.unescape(text), pages.Box(*map(float, re.findall(r'"([-\d.]+)"', places))))
            for places, text in re.findall(r"<word (.+?)>(.*?)</word>", part)
        ]
        for part in output.split("<page ")[1:]
    ]


def poppler_text(path: Path) -> str:
    """Ask pdftotext for the text."""
    command = ["pdftotext", str(path), "-"]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode()


def pdfium_text(path: Path) -> list[str]:
    """Ask PDFium for the text of each page."""
    with pypdfium2.PdfDocument(path) as document:
        return [
            each.get_textpage().get_text_range().replace("\r\n", "\n").rstrip() for each in document
        ]


def pdfium_words(path: Path, number: int, width: int, height: int) -> list[Found]:
    """Ask PDFium where the words of a page are, in pixels of an image of that size."""
    with pypdfium2.PdfDocument(path) as document:
        page = document[number - 1]
        text_page = page.get_textpage()
        text = text_page.get_text_range()
        return [
            Found(match[0], _union(text_page, page, range(*match.span()), width, height))
            for match in re.finditer(r"\S+", text)
        ]


def _union(
    text_page: pypdfium2.PdfTextPage,
    page: pypdfium2.PdfPage,
    letters: range,
    width: int,
    height: int,
) -> pages.Box:
    corners = []
    for letter in letters:
        left, bottom, right, top = text_page.get_charbox(letter, loose=True)
        for x, y in ((left, bottom), (left, top), (right, bottom), (right, top)):
            across, down = ctypes.c_int(), ctypes.c_int()
            raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, x, y, across, down)
            corners.append((across.value, down.value))
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return pages.Box(min(xs), min(ys), max(xs), max(ys))


def _of_class(element: ET.Element, name: str) -> list[ET.Element]:
    return [each for each in element.iter() if each.get("class") == name]
