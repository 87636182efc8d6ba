"""hOCR 1.2 as XHTML: areas, paragraphs, lines and words with boxes and confidences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.exports import document as documents
from pagewarden.exports import markup, tidy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO
    from xml.etree import ElementTree as ET

    from pagewarden.reading import pages

_CAPABILITIES = "ocr_page ocr_carea ocr_par ocr_line ocrx_word ocrp_lang ocrp_poly ocrp_wconf"


def write(
    out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: documents.Document
) -> None:
    """Write tidied pages as they come."""
    markup.write(out, _envelope(document), (_page(page, document) for page in read_pages))


def _envelope(document: documents.Document) -> ET.Element:
    head = markup.element(
        "head",
        {},
        [
            markup.element("title", {}, text=document.name),
            _meta("ocr-system", f"{documents.SOFTWARE} {documents.VERSION}"),
            _meta("ocr-capabilities", _CAPABILITIES),
            _meta("ocr-langs", " ".join(document.languages) or "unknown"),
        ],
    )
    language = document.languages[0] if document.languages else None
    return markup.element(
        "html",
        {"xmlns": "http://www.w3.org/1999/xhtml", "lang": language, "xml:lang": language},
        [head, markup.element("body", {}, [markup.place_of_pages()])],
    )


def _meta(name: str, content: str) -> ET.Element:
    return markup.element("meta", {"name": name, "content": content})


def _page(page: pages.ReadPage, document: documents.Document) -> ET.Element:
    title = "; ".join(
        [
            f"image {_quoted(document.name)}",
            f"bbox 0 0 {page.width} {page.height}",
            f"ppageno {page.number - 1}",
            f"scan_res {page.dpi:.0f} {page.dpi:.0f}",
            f"x_source {page.source}",
            f"x_engine {_quoted(page.engine)}",
            *([] if page.error is None else [f"x_error {_quoted(page.error)}"]),
        ]
    )
    areas = [
        _area(f"{page.number}_{count}", lines, page)
        for count, lines in enumerate(tidy.blocks(page), 1)
    ]
    return _named("div", "ocr_page", f"page_{page.number}", title, areas)


def _area(place: str, lines: list[pages.Line], page: pages.ReadPage) -> ET.Element:
    title = _bbox(markup.outline(lines), page)
    spans = [_line(f"{place}_{count}", line, page) for count, line in enumerate(lines, 1)]
    paragraph = _named("p", "ocr_par", f"par_{place}", title, spans)
    return _named("div", "ocr_carea", f"block_{place}", title, [paragraph])


def _line(place: str, line: pages.Line, page: pages.ReadPage) -> ET.Element:
    title = f"{_bbox(line.quad, page)}; {_standing(line.quad, page)}"
    span = markup.element(
        "span",
        {"class": "ocr_line", "id": f"line_{place}", "title": title},
        _words(place, line, page),
    )
    span.tail = "\n"
    return span


def _words(place: str, line: pages.Line, page: pages.ReadPage) -> Iterator[ET.Element]:
    before: ET.Element | None = None
    for count, (after_space, word) in enumerate(tidy.spaced(line), 1):
        if before is not None and after_space:
            before.tail = " "
        title = (
            f"{_bbox(word.quad, page)}; x_wconf {word.confidence * 100:.0f}; "
            f"poly {markup.points(word.quad, page).replace(',', ' ')}"
        )
        attributes = {"class": "ocrx_word", "id": f"word_{place}_{count}", "title": title}
        before = markup.element("span", attributes, text=word.text)
        yield before


def _standing(quad: pages.Quad, page: pages.ReadPage) -> str:
    """Describe the baseline, from the lower left corner of the box, or how the line is turned."""
    angle = markup.angle(quad)
    if abs(angle) > 45:
        return f"textangle {angle:g}"
    start, end = markup.baseline(quad)
    slope = (end.y - start.y) / (end.x - start.x or 1)
    left, _, _, bottom = markup.box(quad, page)
    return f"baseline {slope:.4f} {start.y + slope * (left - start.x) - bottom:.2f}"


def _bbox(corners: Iterable[pages.Point], page: pages.ReadPage) -> str:
    return "bbox {} {} {} {}".format(*markup.box(corners, page))


def _named(
    tag: str, kind: str, name: str, title: str, children: Iterable[ET.Element]
) -> ET.Element:
    made = markup.element(tag, {"class": kind, "id": name, "title": title}, children, text="\n")
    made.tail = "\n"
    return made


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
