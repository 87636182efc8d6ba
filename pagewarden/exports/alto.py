"""ALTO 4.4: blocks, lines and strings in pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pagewarden import PRODUCT, __version__
from pagewarden.exports import base, xml
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
_SCHEMA = "http://www.loc.gov/standards/alto/v4/alto-4-4.xsd"


def write(out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: base.Document) -> None:
    """Write clean pages one at a time."""
    xml.write(out, _make_envelope(document), (_make_page(page, document) for page in read_pages))


def _make_envelope(document: base.Document) -> ET.Element:
    return xml.make_element(
        "alto",
        {
            "xmlns": _NAMESPACE,
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:schemaLocation": f"{_NAMESPACE} {_SCHEMA}",
            "SCHEMAVERSION": "4.4",
        },
        [
            _make_description(document),
            xml.make_element("Layout", {}, [xml.make_pages_placeholder()]),
        ],
    )


def _make_description(document: base.Document) -> ET.Element:
    software = [
        _make_text("softwareCreator", PRODUCT),
        _make_text("softwareName", PRODUCT),
        _make_text("softwareVersion", __version__),
    ]
    step = [
        _make_text("processingCategory", "contentGeneration"),
        _make_text("processingStepDescription", "OCR"),
        xml.make_element("processingSoftware", {}, software),
    ]
    image = [_make_text("fileName", document.name)]
    parts = [
        _make_text("MeasurementUnit", "pixel"),
        xml.make_element("sourceImageInformation", {}, image),
        xml.make_element("Processing", {"ID": "ocr"}, step),
    ]
    return xml.make_element("Description", {}, parts)


def _make_page(page: pages.ReadPage, document: base.Document) -> ET.Element:
    confidence = page.confidence
    attributes = {
        "ID": f"page_{page.number}",
        "PHYSICAL_IMG_NR": page.number,
        "WIDTH": page.width,
        "HEIGHT": page.height,
        "PROCESSINGREFS": "ocr",
        "PC": None if confidence is None else round(confidence, 4),
        "QUALITY": None if page.error is None else "Damaged",
        "QUALITY_DETAIL": page.error,
        "LANG": document.languages[0].replace("_", "-") if document.languages else None,
    }
    whole = pages.Box(0, 0, page.width, page.height).quad()
    space = xml.make_element("PrintSpace", _make_position(whole, page), _make_blocks(page))
    element = xml.make_element("Page", attributes, [space])
    ET.indent(element, " ")
    return element


def _make_blocks(page: pages.ReadPage) -> Iterator[ET.Element]:
    for count, lines in enumerate(base.split_blocks(page), 1):
        block_id = f"{page.number}_{count}"
        attributes = {"ID": f"block_{block_id}", **_make_position(xml.make_outline(lines), page)}
        yield xml.make_element(
            "TextBlock",
            attributes,
            [_make_line(f"{block_id}_{n}", line, page) for n, line in enumerate(lines, 1)],
        )


def _make_line(line_id: str, line: pages.Line, page: pages.ReadPage) -> ET.Element:
    attributes = {
        "ID": f"line_{line_id}",
        "BASELINE": xml.format_points(xml.estimate_line_baseline(line), page),
        **_make_position(xml.get_line_polygon(line), page),
    }
    children = [_make_shape(xml.get_line_polygon(line), page), *_make_strings(line_id, line, page)]
    return xml.make_element("TextLine", attributes, children)


def _make_strings(line_id: str, line: pages.Line, page: pages.ReadPage) -> Iterator[ET.Element]:
    for count, (after_space, word) in enumerate(base.iterate_words(line), 1):
        if after_space:
            yield xml.make_element("SP", {})
        attributes = {
            "ID": f"string_{line_id}_{count}",
            "CONTENT": word.text,
            "WC": round(word.confidence, 4),
            **_make_position(word.quad, page),
        }
        yield xml.make_element("String", attributes, [_make_shape(word.quad, page)])


def _make_shape(corners: Iterable[pages.Point], page: pages.ReadPage) -> ET.Element:
    polygon = xml.make_element("Polygon", {"POINTS": xml.format_points(corners, page)})
    return xml.make_element("Shape", {}, [polygon])


def _make_position(corners: Iterable[pages.Point], page: pages.ReadPage) -> dict[str, int]:
    left, top, right, bottom = xml.make_clipped_box(corners, page)
    return {"HPOS": left, "VPOS": top, "WIDTH": right - left, "HEIGHT": bottom - top}


def _make_text(tag: str, text: str) -> ET.Element:
    return xml.make_element(tag, {}, text=text)


FORMAT = base.Format(suffix=".alto.xml", media_type="application/xml", write=write, order=5)
