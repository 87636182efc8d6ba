"""PAGE-XML 2019-07-15: regions in reading order, lines with baselines, words."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pagewarden import SOFTWARE
from pagewarden.exports import base, xml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from pagewarden.ocr import pages

_NAMESPACE = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"
# The schema requires a date; a fixed one keeps exports reproducible.
_NO_DATE = "1970-01-01T00:00:00Z"


def write(out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: base.Document) -> None:
    """Write clean pages one at a time.

    The schema allows one page per file; of several pages, each is valid by itself.
    """
    xml.write(out, _make_envelope(document), (_make_page(page, document) for page in read_pages))


def _make_envelope(document: base.Document) -> ET.Element:
    items = [_make_item("processingStep", "ocr", SOFTWARE)]
    items += [_make_item("other", "language", language) for language in document.languages]
    metadata = [
        xml.make_element("Creator", {}, text=SOFTWARE),
        xml.make_element("Created", {}, text=_NO_DATE),
        xml.make_element("LastChange", {}, text=_NO_DATE),
        *items,
    ]
    return xml.make_element(
        "PcGts",
        {
            "xmlns": _NAMESPACE,
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:schemaLocation": f"{_NAMESPACE} {_NAMESPACE}/pagecontent.xsd",
        },
        [xml.make_element("Metadata", {}, metadata), xml.make_pages_placeholder()],
    )


def _make_item(kind: str, name: str, value: str) -> ET.Element:
    return xml.make_element("MetadataItem", {"type": kind, "name": name, "value": value})


def _make_page(page: pages.ReadPage, document: base.Document) -> ET.Element:
    confidence = page.confidence
    attributes = {
        "imageFilename": document.name,
        "imageWidth": page.width,
        "imageHeight": page.height,
        "imageXResolution": round(page.dpi, 2),
        "imageYResolution": round(page.dpi, 2),
        "imageResolutionUnit": "PPI",
        "conf": None if confidence is None else round(confidence, 4),
    }
    regions = [
        _make_region(f"{page.number}_{count}", lines, page)
        for count, lines in enumerate(base.split_blocks(page), 1)
    ]
    children = [*_make_reading_order(page.number, regions), _make_user_defined(page), *regions]
    element = xml.make_element("Page", attributes, children)
    ET.indent(element, " ")
    return element


def _make_reading_order(number: int, regions: Sequence[ET.Element]) -> list[ET.Element]:
    if not regions:
        return []
    references = [
        xml.make_element("RegionRefIndexed", {"index": index, "regionRef": region.get("id")})
        for index, region in enumerate(regions)
    ]
    group = xml.make_element("OrderedGroup", {"id": f"order_{number}"}, references)
    return [xml.make_element("ReadingOrder", {}, [group])]


def _make_user_defined(page: pages.ReadPage) -> ET.Element:
    """Return the values that have no element of their own in PAGE."""
    values = {
        "number": str(page.number),
        "source": page.source.value,
        "engine": page.engine,
        "error": page.error,
    }
    return xml.make_element(
        "UserDefined",
        {},
        [
            xml.make_element("UserAttribute", {"name": name, "type": "xsd:string", "value": value})
            for name, value in values.items()
            if value
        ],
    )


def _make_region(region_id: str, lines: Sequence[pages.Line], page: pages.ReadPage) -> ET.Element:
    return xml.make_element(
        "TextRegion",
        {"id": f"region_{region_id}"},
        [
            _make_coords(xml.make_outline(lines), page),
            *(
                _make_line(f"{region_id}_{count}", line, page)
                for count, line in enumerate(lines, 1)
            ),
            _make_text("\n".join(line.text for line in lines), None),
        ],
    )


def _make_line(line_id: str, line: pages.Line, page: pages.ReadPage) -> ET.Element:
    baseline = xml.format_points(xml.estimate_line_baseline(line), page)
    return xml.make_element(
        "TextLine",
        {"id": f"line_{line_id}"},
        [
            _make_coords(xml.get_line_polygon(line), page),
            xml.make_element("Baseline", {"points": baseline}),
            *(
                _make_word(f"{line_id}_{count}", word, page)
                for count, word in enumerate(line.words, 1)
            ),
            _make_text(line.text, line.confidence),
        ],
    )


def _make_word(word_id: str, word: pages.Word, page: pages.ReadPage) -> ET.Element:
    children = [_make_coords(word.quad, page), _make_text(word.text, word.confidence)]
    return xml.make_element("Word", {"id": f"word_{word_id}"}, children)


def _make_coords(corners: Iterable[pages.Point], page: pages.ReadPage) -> ET.Element:
    return xml.make_element("Coords", {"points": xml.format_points(corners, page)})


def _make_text(text: str, confidence: float | None) -> ET.Element:
    rounded = None if confidence is None else round(confidence, 4)
    return xml.make_element(
        "TextEquiv", {"conf": rounded}, [xml.make_element("Unicode", {}, text=text)]
    )


FORMAT = base.Format(suffix=".page.xml", media_type="application/xml", write=write, order=6)
