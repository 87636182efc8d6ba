"""From pixels of the page image to the coordinates of a PDF page."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pikepdf

from pagewarden.reading import pages

if TYPE_CHECKING:
    from pagewarden.reading.pages import Point

# What PDFium takes for the paper where a page does not say.
_LETTER = pikepdf.Rectangle(0, 0, 612, 792)


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a page image of width by height pixels lies on a PDF page.

    shown is the part of the page that people see, in its own units, origin bottom left; rotate
    is by how many degrees clockwise (0, 90, 180, 270) it is turned for them.
    """

    width: int
    height: int
    shown: pikepdf.Rectangle
    rotate: int = 0

    def point(self, pixel: Point) -> Point:
        """Find where a pixel lies."""
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


def frame_of(pdf_page: pikepdf.Page, page: pages.ReadPage) -> Frame:
    """Place the image of a page that was shown as PDFium does it."""
    media = _box(pdf_page.mediabox) or _LETTER
    crop = _box(pdf_page.cropbox) or media
    return Frame(page.width, page.height, crop & media, _rotation(pdf_page))


def _box(array: pikepdf.Object | None) -> pikepdf.Rectangle | None:
    try:
        box = pikepdf.Rectangle(array) if isinstance(array, pikepdf.Array) else None
    except TypeError:
        return None
    return box if box is not None and box.width and box.height else None


def _rotation(pdf_page: pikepdf.Page) -> int:
    turn = pdf_page.obj.get("/Rotate", 0)
    return int(turn) // 90 % 4 * 90 if isinstance(turn, int | decimal.Decimal) else 0
