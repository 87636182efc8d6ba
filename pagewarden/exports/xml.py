"""Shared by the three XML formats: elements, positions in whole pixels, and streaming output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pagewarden.exports import base
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import BinaryIO

# Share of the line height above the baseline.
ASCENT = 0.8


def make_element(
    tag: str,
    attributes: Mapping[str, object],
    children: Iterable[ET.Element] = (),
    text: str | None = None,
) -> ET.Element:
    """Return an element; attributes that are None are omitted."""
    new_element = ET.Element(
        tag, {key: str(value) for key, value in attributes.items() if value is not None}
    )
    new_element.extend(children)
    new_element.text = text
    return new_element


def make_pages_placeholder() -> ET.Element:
    """Return the element that marks the position of the pages in the envelope."""
    return ET.Element("pages")


def write(out: BinaryIO, envelope: ET.Element, page_elements: Iterable[ET.Element]) -> None:
    """Write the envelope with the pages, holding one page in memory at a time."""
    placeholder = ET.tostring(make_pages_placeholder())
    head, tail = ET.tostring(envelope, "utf-8", xml_declaration=True).split(placeholder)
    out.write(head + b"\n")
    out.writelines(ET.tostring(page, "utf-8").rstrip() + b"\n" for page in page_elements)
    out.write(tail + b"\n")


def make_clipped_box(
    corners: Iterable[pages.Point], page: pages.ReadPage
) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the rectangle around points, clipped to the page."""
    clipped = [_clip(corner, page) for corner in corners]
    xs, ys = [x for x, _ in clipped], [y for _, y in clipped]
    return min(xs), min(ys), max(xs), max(ys)


def format_points(corners: Iterable[pages.Point], page: pages.ReadPage) -> str:
    """Format points as in ALTO and PAGE, clipped to the page."""
    return " ".join(f"{x},{y}" for x, y in (_clip(corner, page) for corner in corners))


def get_line_polygon(line: pages.Line) -> Sequence[pages.Point]:
    """Return the corners of a line, clockwise from the start of its text."""
    if isinstance(line, pages.CurvedLine):
        upper, lower = zip(*line.edges, strict=True)
        return *upper, *reversed(lower)
    return line.quad


def estimate_line_baseline(line: pages.Line) -> Sequence[pages.Point]:
    """Estimate the baseline of a line, from the start of its text to the end."""
    if isinstance(line, pages.CurvedLine):
        return [base.interpolate(above, below, ASCENT) for above, below in line.edges]
    return estimate_baseline(line.quad)


def make_outline(lines: Sequence[pages.Line]) -> Sequence[pages.Point]:
    """Return the upright rectangle around lines."""
    corners = [corner for line in lines for corner in get_line_polygon(line)]
    xs, ys = [corner.x for corner in corners], [corner.y for corner in corners]
    return pages.Box(min(xs), min(ys), max(xs), max(ys)).quad()


def estimate_baseline(quad: pages.Quad) -> tuple[pages.Point, pages.Point]:
    """Estimate the baseline of a quad, from the start of its text to the end."""
    top_left, top_right, bottom_right, bottom_left = quad
    return (
        base.interpolate(top_left, bottom_left, ASCENT),
        base.interpolate(top_right, bottom_right, ASCENT),
    )


def measure_angle(quad: pages.Quad) -> float:
    """Return the rotation of the text in degrees, counter-clockwise."""
    start, end = estimate_baseline(quad)
    return round(math.degrees(math.atan2(start.y - end.y, end.x - start.x)), 2)


def _clip(point: pages.Point, page: pages.ReadPage) -> tuple[int, int]:
    return min(max(round(point.x), 0), page.width), min(max(round(point.y), 0), page.height)
