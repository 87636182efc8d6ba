"""hOCR 1.2 as XHTML: areas, paragraphs, lines and words with boxes and confidences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden import SOFTWARE
from pagewarden.exports import base, xml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO
    from xml.etree import ElementTree as ET

    from pagewarden.ocr import pages

_CAPABILITIES = "ocr_page ocr_carea ocr_par ocr_line ocrx_word ocrp_lang ocrp_poly ocrp_wconf"


def write(out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: base.Document) -> None:
    """Write clean pages one at a time."""
    xml.write(out, _make_envelope(document), (_make_page(page, document) for page in read_pages))


def _make_envelope(document: base.Document) -> ET.Element:
    head = xml.make_element(
        "head",
        {},
        [
            xml.make_element("title", {}, text=document.name),
            _make_meta("ocr-system", SOFTWARE),
            _make_meta("ocr-capabilities", _CAPABILITIES),
            _make_meta("ocr-langs", " ".join(document.languages) or "unknown"),
        ],
    )
    language = document.languages[0] if document.languages else None
    return xml.make_element(
        "html",
        {"xmlns": "http://www.w3.org/1999/xhtml", "lang": language, "xml:lang": language},
        [head, xml.make_element("body", {}, [xml.make_pages_placeholder()])],
    )


def _make_meta(name: str, content: str) -> ET.Element:
    return xml.make_element("meta", {"name": name, "content": content})


def _make_page(page: pages.ReadPage, document: base.Document) -> ET.Element:
    title = "; ".join(
        [
            f"image {_quote(document.name)}",
            f"bbox 0 0 {page.width} {page.height}",
            f"ppageno {page.number - 1}",
            f"scan_res {page.dpi:.0f} {page.dpi:.0f}",
            f"x_source {page.source}",
            f"x_engine {_quote(page.engine)}",
            *([] if page.error is None else [f"x_error {_quote(page.error)}"]),
        ]
    )
    areas = [
        _make_area(f"{page.number}_{count}", lines, page)
        for count, lines in enumerate(base.split_blocks(page), 1)
    ]
    return _make_block("div", "ocr_page", f"page_{page.number}", title, areas)


def _make_area(area_id: str, lines: list[pages.Line], page: pages.ReadPage) -> ET.Element:
    title = _format_bbox(xml.make_outline(lines), page)
    spans = [_make_line(f"{area_id}_{count}", line, page) for count, line in enumerate(lines, 1)]
    paragraph = _make_block("p", "ocr_par", f"par_{area_id}", title, spans)
    return _make_block("div", "ocr_carea", f"block_{area_id}", title, [paragraph])


def _make_line(line_id: str, line: pages.Line, page: pages.ReadPage) -> ET.Element:
    title = f"{_format_bbox(line.quad, page)}; {_format_baseline(line.quad, page)}"
    span = xml.make_element(
        "span",
        {"class": "ocr_line", "id": f"line_{line_id}", "title": title},
        _make_words(line_id, line, page),
    )
    span.tail = "\n"
    return span


def _make_words(line_id: str, line: pages.Line, page: pages.ReadPage) -> Iterator[ET.Element]:
    previous: ET.Element | None = None
    for count, (after_space, word) in enumerate(base.iterate_words(line), 1):
        if previous is not None and after_space:
            previous.tail = " "
        title = (
            f"{_format_bbox(word.quad, page)}; x_wconf {word.confidence * 100:.0f}; "
            f"poly {xml.format_points(word.quad, page).replace(',', ' ')}"
        )
        attributes = {"class": "ocrx_word", "id": f"word_{line_id}_{count}", "title": title}
        previous = xml.make_element("span", attributes, text=word.text)
        yield previous


def _format_baseline(quad: pages.Quad, page: pages.ReadPage) -> str:
    """Return the baseline relative to the lower left corner of the box, or a rotation angle."""
    angle = xml.measure_angle(quad)
    if abs(angle) > 45:
        return f"textangle {angle:g}"
    start, end = xml.estimate_baseline(quad)
    slope = (end.y - start.y) / (end.x - start.x or 1)
    left, _, _, bottom = xml.make_clipped_box(quad, page)
    return f"baseline {slope:.4f} {start.y + slope * (left - start.x) - bottom:.2f}"


def _format_bbox(corners: Iterable[pages.Point], page: pages.ReadPage) -> str:
    return "bbox {} {} {} {}".format(*xml.make_clipped_box(corners, page))


def _make_block(
    tag: str, kind: str, name: str, title: str, children: Iterable[ET.Element]
) -> ET.Element:
    element = xml.make_element(
        tag, {"class": kind, "id": name, "title": title}, children, text="\n"
    )
    element.tail = "\n"
    return element


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


FORMAT = base.Format(suffix=".hocr", media_type="text/vnd.hocr+html", write=write, order=4)
