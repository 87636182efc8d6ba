"""PAGE-XML 2019-07-15: regions in reading order, lines with baselines, words."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pagewarden.exports import document as documents
from pagewarden.exports import markup, tidy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from pagewarden.reading import pages

_NAMESPACE = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"
# The schema wants a date; the same pages are to give the same bytes on any day.
_NO_DATE = "1970-01-01T00:00:00Z"


def write(
    out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: documents.Document
) -> None:
    """Write tidied pages as they come.

    The schema foresees one page to a file: of several pages each one is valid by itself.
    """
    markup.write(out, _envelope(document), (_page(page, document) for page in read_pages))


def _envelope(document: documents.Document) -> ET.Element:
    software = f"{documents.SOFTWARE} {documents.VERSION}"
    items = [_item("processingStep", "ocr", software)]
    items += [_item("other", "language", language) for language in document.languages]
    metadata = [
        markup.element("Creator", {}, text=software),
        markup.element("Created", {}, text=_NO_DATE),
        markup.element("LastChange", {}, text=_NO_DATE),
        *items,
    ]
    return markup.element(
        "PcGts",
        {
            "xmlns": _NAMESPACE,
            "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
            "xsi:schemaLocation": f"{_NAMESPACE} {_NAMESPACE}/pagecontent.xsd",
        },
        [markup.element("Metadata", {}, metadata), markup.place_of_pages()],
    )


def _item(kind: str, name: str, value: str) -> ET.Element:
    return markup.element("MetadataItem", {"type": kind, "name": name, "value": value})


def _page(page: pages.ReadPage, document: documents.Document) -> ET.Element:
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
        _region(f"{page.number}_{count}", lines, page)
        for count, lines in enumerate(tidy.blocks(page), 1)
    ]
    children = [*_reading_order(page.number, regions), _facts(page), *regions]
    made = markup.element("Page", attributes, children)
    ET.indent(made, " ")
    return made


def _reading_order(number: int, regions: Sequence[ET.Element]) -> list[ET.Element]:
    if not regions:
        return []
    references = [
        markup.element("RegionRefIndexed", {"index": index, "regionRef": region.get("id")})
        for index, region in enumerate(regions)
    ]
    group = markup.element("OrderedGroup", {"id": f"order_{number}"}, references)
    return [markup.element("ReadingOrder", {}, [group])]


def _facts(page: pages.ReadPage) -> ET.Element:
    """Tell what PAGE has no place of its own for."""
    facts = {
        "number": str(page.number),
        "source": page.source.value,
        "engine": page.engine,
        "error": page.error,
    }
    return markup.element(
        "UserDefined",
        {},
        [
            markup.element("UserAttribute", {"name": name, "type": "xsd:string", "value": value})
            for name, value in facts.items()
            if value
        ],
    )


def _region(place: str, lines: Sequence[pages.Line], page: pages.ReadPage) -> ET.Element:
    return markup.element(
        "TextRegion",
        {"id": f"region_{place}"},
        [
            _coords(markup.outline(lines), page),
            *(_line(f"{place}_{count}", line, page) for count, line in enumerate(lines, 1)),
            _text("\n".join(line.text for line in lines), None),
        ],
    )


def _line(place: str, line: pages.Line, page: pages.ReadPage) -> ET.Element:
    stand = markup.points(markup.stand(line), page)
    return markup.element(
        "TextLine",
        {"id": f"line_{place}"},
        [
            _coords(markup.shape(line), page),
            markup.element("Baseline", {"points": stand}),
            *(_word(f"{place}_{count}", word, page) for count, word in enumerate(line.words, 1)),
            _text(line.text, line.confidence),
        ],
    )


def _word(place: str, word: pages.Word, page: pages.ReadPage) -> ET.Element:
    children = [_coords(word.quad, page), _text(word.text, word.confidence)]
    return markup.element("Word", {"id": f"word_{place}"}, children)


def _coords(corners: Iterable[pages.Point], page: pages.ReadPage) -> ET.Element:
    return markup.element("Coords", {"points": markup.points(corners, page)})


def _text(text: str, confidence: float | None) -> ET.Element:
    share = None if confidence is None else round(confidence, 4)
    return markup.element("TextEquiv", {"conf": share}, [markup.element("Unicode", {}, text=text)])
