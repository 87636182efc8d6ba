"""What the three XML formats share: elements, places in whole pixels, and writing page by page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pagewarden.exports import tidy
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import BinaryIO

# How much of the height of a line stands above its baseline.
ASCENT = 0.8


def element(
    tag: str,
    attributes: Mapping[str, object],
    children: Iterable[ET.Element] = (),
    text: str | None = None,
) -> ET.Element:
    """Make an element; an attribute that is None is left out."""
    made = ET.Element(
        tag, {key: str(value) for key, value in attributes.items() if value is not None}
    )
    made.extend(children)
    made.text = text
    return made


def place_of_pages() -> ET.Element:
    """Mark where in the envelope the pages go."""
    return ET.Element("pages")


def write(out: BinaryIO, envelope: ET.Element, page_elements: Iterable[ET.Element]) -> None:
    """Write the envelope with the pages in their place, holding one page at a time."""
    mark = ET.tostring(place_of_pages())
    head, tail = ET.tostring(envelope, "utf-8", xml_declaration=True).split(mark)
    out.write(head + b"\n")
    out.writelines(ET.tostring(page, "utf-8").rstrip() + b"\n" for page in page_elements)
    out.write(tail + b"\n")


def box(corners: Iterable[pages.Point], page: pages.ReadPage) -> tuple[int, int, int, int]:
    """Find left, top, right and bottom of the rectangle around points, within the page."""
    inside = [_inside(corner, page) for corner in corners]
    xs, ys = [x for x, _ in inside], [y for _, y in inside]
    return min(xs), min(ys), max(xs), max(ys)


def points(corners: Iterable[pages.Point], page: pages.ReadPage) -> str:
    """Spell points as ALTO and PAGE do, within the page."""
    return " ".join(f"{x},{y}" for x, y in (_inside(corner, page) for corner in corners))


def shape(line: pages.Line) -> Sequence[pages.Point]:
    """Give the corners of a line, clockwise from where its text begins."""
    if isinstance(line, pages.CurvedLine):
        upper, lower = zip(*line.edges, strict=True)
        return *upper, *reversed(lower)
    return line.quad


def stand(line: pages.Line) -> Sequence[pages.Point]:
    """Guess what the text of a line stands on, from its beginning to its end."""
    if isinstance(line, pages.CurvedLine):
        return [tidy.along(above, below, ASCENT) for above, below in line.edges]
    return baseline(line.quad)


def outline(lines: Sequence[pages.Line]) -> Sequence[pages.Point]:
    """Find the upright rectangle around lines."""
    corners = [corner for line in lines for corner in shape(line)]
    xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
    return pages.Box(min(xs), min(ys), max(xs), max(ys)).quad()


def baseline(quad: pages.Quad) -> tuple[pages.Point, pages.Point]:
    """Guess what the text of a quad stands on, from its beginning to its end."""
    top_left, top_right, bottom_right, bottom_left = quad
    return (
        tidy.along(top_left, bottom_left, ASCENT),
        tidy.along(top_right, bottom_right, ASCENT),
    )


def angle(quad: pages.Quad) -> float:
    """Measure by how many degrees the text is turned, counter-clockwise."""
    start, end = baseline(quad)
    return round(math.degrees(math.atan2(start.y - end.y, end.x - start.x)), 2)


def _inside(point: pages.Point, page: pages.ReadPage) -> tuple[int, int]:
    return min(max(round(point.x), 0), page.width), min(max(round(point.y), 0), page.height)
