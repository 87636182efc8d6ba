"""Helpers for PDF objects, and the conversion of pixels to page coordinates."""

from __future__ import annotations

import copy
import decimal
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pikepdf

from pagewarden.ocr import pages

if TYPE_CHECKING:
    from pagewarden.ocr.pages import Point

# PDFium's default page size.
_LETTER = pikepdf.Rectangle(0, 0, 612, 792)


@dataclass(frozen=True, slots=True)
class Frame:
    """Position of a page image of width by height pixels on a PDF page.

    shown is the visible part of the page in PDF units, with the origin at the bottom left; rotate
    is its clockwise rotation for display (0, 90, 180 or 270 degrees).
    """

    width: int
    height: int
    shown: pikepdf.Rectangle
    rotate: int = 0

    def point(self, pixel: Point) -> Point:
        """Return the position of a pixel on the page."""
        across, down = pixel.x / self.width, pixel.y / self.height
        if self.rotate == 90:
            across, down = down, 1 - across
        elif self.rotate == 180:
            across, down = 1 - across, 1 - down
        elif self.rotate == 270:
            across, down = 1 - down, across
        return pages.Point(
            self.shown.llx + across * self.shown.width, self.shown.ury - down * self.shown.height
        )


def find_frame(pdf_page: pikepdf.Page, page: pages.ReadPage) -> Frame:
    """Return the frame of a page image that was rendered as PDFium does."""
    media = _parse_box(pdf_page.mediabox) or _LETTER
    crop = _parse_box(pdf_page.cropbox) or media
    return Frame(page.width, page.height, crop & media, _get_rotation(pdf_page))


def _parse_box(array: pikepdf.Object | None) -> pikepdf.Rectangle | None:
    try:
        box = pikepdf.Rectangle(array) if isinstance(array, pikepdf.Array) else None
    except TypeError:
        return None
    return box if box is not None and box.width and box.height else None


def _get_rotation(pdf_page: pikepdf.Page) -> int:
    angle = pdf_page.obj.get("/Rotate", 0)
    return int(angle) // 90 % 4 * 90 if isinstance(angle, int | decimal.Decimal) else 0


def compress(pdf: pikepdf.Pdf, data: bytes) -> pikepdf.Stream:
    """Return a compressed stream, so that saving need not recompress any stream."""
    return pikepdf.Stream(pdf, zlib.compress(data, 9), Filter=pikepdf.Name.FlateDecode)


def find_dictionary(parent: pikepdf.Object, key: str) -> pikepdf.Object:
    """Return a dictionary inside another one; an empty one if there is none."""
    found = parent.get(key)
    return found if isinstance(found, pikepdf.Dictionary) else pikepdf.Dictionary()


def copy_dictionary(parent: pikepdf.Object, key: str) -> pikepdf.Object:
    """Replace a dictionary, which other objects may share, by a copy; return the copy."""
    parent[key] = copy.copy(find_dictionary(parent, key))
    return parent[key]
