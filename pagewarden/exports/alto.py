"""ALTO 4.4: blocks, lines and strings, measured in pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pagewarden.exports import document as documents
from pagewarden.exports import markup, tidy
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_NAMESPACE = "http://www.loc.gov/standards/alto/ns-v4#"
_SCHEMA = "http://www.loc.gov/standards/alto/v4/alto-4-4.xsd"


def write(
    out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: documents.Document
) -> None:
    """Write tidied pages as they come."""
    markup.write(out, _envelope(document), (_page(page, document) for page in read_pages))


def _envelope(document: documents.Document) -> ET.Element:
    return markup.element(
        "alto",
        {
            "xmlns": _NAMESPACE,
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:schemaLocation": f"{_NAMESPACE} {_SCHEMA}",
            "SCHEMAVERSION": "4.4",
        },
        [_description(document), markup.element("Layout", {}, [markup.place_of_pages()])],
    )


def _description(document: documents.Document) -> ET.Element:
    software = [
        _text("softwareCreator", documents.SOFTWARE),
        _text("softwareName", documents.SOFTWARE),
        _text("softwareVersion", documents.VERSION),
    ]
    step = [
        _text("processingCategory", "contentGeneration"),
        _text("processingStepDescription", "OCR"),
        markup.element("processingSoftware", {}, software),
    ]
    image = [_text("fileName", document.name)]
    parts = [
        _text("MeasurementUnit", "pixel"),
        markup.element("sourceImageInformation", {}, image),
        markup.element("Processing", {"ID": "ocr"}, step),
    ]
    return markup.element("Description", {}, parts)


def _page(page: pages.ReadPage, document: documents.Document) -> ET.Element:
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
    space = markup.element("PrintSpace", _position(whole, page), _blocks(page))
    made = markup.element("Page", attributes, [space])
    ET.indent(made, " ")
    return made


def _blocks(page: pages.ReadPage) -> Iterator[ET.Element]:
    for count, lines in enumerate(tidy.blocks(page), 1):
        name = f"block_{page.number}_{count}"
        attributes = {"ID": name, **_position(markup.outline(lines), page)}
        yield markup.element(
            "TextBlock",
            attributes,
            [_line(f"{page.number}_{count}_{at}", line, page) for at, line in enumerate(lines, 1)],
        )


def _line(place: str, line: pages.Line, page: pages.ReadPage) -> ET.Element:
    attributes = {
        "ID": f"line_{place}",
        "BASELINE": markup.points(markup.stand(line), page),
        **_position(markup.shape(line), page),
    }
    children = [_shape(markup.shape(line), page), *_strings(place, line, page)]
    return markup.element("TextLine", attributes, children)


def _strings(place: str, line: pages.Line, page: pages.ReadPage) -> Iterator[ET.Element]:
    for count, (after_space, word) in enumerate(tidy.spaced(line), 1):
        if after_space:
            yield markup.element("SP", {})
        attributes = {
            "ID": f"string_{place}_{count}",
            "CONTENT": word.text,
            "WC": round(word.confidence, 4),
            **_position(word.quad, page),
        }
        yield markup.element("String", attributes, [_shape(word.quad, page)])


def _shape(corners: Iterable[pages.Point], page: pages.ReadPage) -> ET.Element:
    polygon = markup.element("Polygon", {"POINTS": markup.points(corners, page)})
    return markup.element("Shape", {}, [polygon])


def _position(corners: Iterable[pages.Point], page: pages.ReadPage) -> dict[str, int]:
    left, top, right, bottom = markup.box(corners, page)
    return {"HPOS": left, "VPOS": top, "WIDTH": right - left, "HEIGHT": bottom - top}


def _text(tag: str, text: str) -> ET.Element:
    return markup.element(tag, {}, text=text)
