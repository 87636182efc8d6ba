"""What a page of a PDF is made of, asked of PDFium: its size, its images, its picture."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it has no stubs
import pypdfium2.raw as pdfium_c  # type: ignore[import-untyped]

from pagewarden.reading import pixels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_OBJECTS_LOOKED_AT = 5_000  # the image of a scan is among the first; drawings have a million lines
_FORMS_WITHIN_FORMS = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """An image on a page: its own pixels, the share of the page it covers, its resolution there."""

    width: int
    height: int
    share: float
    dpi: float


@dataclass(frozen=True, slots=True)
class Contents:
    """What a page is made of; texts counts the pieces of text, each of a letter or more."""

    pictures: tuple[Picture, ...]
    texts: int


def load(document: pdfium.PdfDocument, number: int) -> pdfium.PdfPage:
    """Load a page, counted from 1, with what people filled in and wrote upon it."""
    page = document[number - 1]
    if pdfium_c.FPDFPage_GetAnnotCount(page) > 0:
        # PDFium finds the text of form fields and notes only once they are part of the page.
        pdfium_c.FPDFPage_Flatten(page, pdfium_c.FLAT_NORMALDISPLAY)
        page.close()
        page = document[number - 1]
    return page


def to_pixels(page: pdfium.PdfPage, width: int, height: int) -> NDArray[np.float64]:
    """Give the 2 x 3 matrix from the page's own space to pixels of an image of this size."""
    left, bottom, right, top = page.get_bbox()
    # How the axes of the page point in the image, and what its top left corner is, by /Rotate.
    x_axis, y_axis, corner = {
        0: ((1, 0), (0, -1), (left, top)),
        90: ((0, 1), (1, 0), (left, bottom)),
        180: ((-1, 0), (0, 1), (right, bottom)),
        270: ((0, -1), (-1, 0), (right, top)),
    }[page.get_rotation()]
    turn = np.array((x_axis, y_axis), dtype=np.float64).T
    extent = np.abs(turn @ (right - left, top - bottom))
    linear = turn * (np.array((width, height)) / extent)[:, np.newaxis]
    return np.column_stack((linear, -linear @ corner))


def contents(page: pdfium.PdfPage) -> Contents:
    """Find the images on the page, and count its pieces of text."""
    page_box = page.get_bbox()
    pictures: list[Picture] = []
    texts = 0
    for raw, kind, outer in _objects(page):
        texts += kind == pdfium_c.FPDF_PAGEOBJ_TEXT
        if kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            with contextlib.suppress(pdfium.PdfiumError):  # it has no size, and will not be seen
                pictures.append(_picture(_wrapped(raw, page), outer, page_box))
    return Contents(tuple(pictures), texts)


def _picture(
    image: pdfium.PdfImage, outer: pdfium.PdfMatrix, page_box: tuple[float, ...]
) -> Picture:
    width, height = image.get_px_size()
    matrix = image.get_matrix().multiply(outer)
    box = matrix.on_rect(0, 0, 1, 1)
    left, bottom = max(box[0], page_box[0]), max(box[1], page_box[1])
    right, top = min(box[2], page_box[2]), min(box[3], page_box[3])
    page_area = (page_box[2] - page_box[0]) * (page_box[3] - page_box[1])
    share = max(0.0, right - left) * max(0.0, top - bottom) / page_area
    across, down = math.hypot(matrix.a, matrix.b), math.hypot(matrix.c, matrix.d)
    dpi = 72 * max(width / across, height / down) if across and down else 0.0
    return Picture(width, height, share, dpi)


def _objects(
    page: pdfium.PdfPage,
) -> Iterator[tuple[pdfium_c.FPDF_PAGEOBJECT, int, pdfium.PdfMatrix]]:
    """Walk over what is drawn: each thing, its kind, and the matrix of the form it is part of."""
    return itertools.islice(_within(page, page, pdfium.PdfMatrix(), 0), _OBJECTS_LOOKED_AT)


def _within(
    holder: pdfium.PdfPage | pdfium.PdfObject,
    page: pdfium.PdfPage,
    outer: pdfium.PdfMatrix,
    depth: int,
) -> Iterator[tuple[pdfium_c.FPDF_PAGEOBJECT, int, pdfium.PdfMatrix]]:
    if depth == 0:
        count, get = pdfium_c.FPDFPage_CountObjects, pdfium_c.FPDFPage_GetObject
    else:
        count, get = pdfium_c.FPDFFormObj_CountObjects, pdfium_c.FPDFFormObj_GetObject
    for index in range(count(holder)):
        raw = get(holder, index)
        kind = pdfium_c.FPDFPageObj_GetType(raw)
        yield raw, kind, outer
        if kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth < _FORMS_WITHIN_FORMS:
            form = _wrapped(raw, page)
            yield from _within(form, page, form.get_matrix().multiply(outer), depth + 1)


def _wrapped(raw: pdfium_c.FPDF_PAGEOBJECT, page: pdfium.PdfPage) -> pdfium.PdfObject:
    """Wrap a thing on a page; one without a page would be destroyed with its wrapper."""
    return pdfium.PdfObject(raw, page=page)


def images_are_sound(page: pdfium.PdfPage) -> bool:
    """Tell whether all images of the page can be decoded."""
    try:
        for raw, kind, _ in _objects(page):
            if kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
                _wrapped(raw, page).get_bitmap()
    except pdfium.PdfiumError:
        return False
    return True


def picture_of(page: pdfium.PdfPage, width: int, height: int) -> NDArray[np.uint8]:
    """Render the page, grey where it is grey."""
    bitmap = pdfium.PdfBitmap.new_native(width, height, pdfium_c.FPDFBitmap_BGR, rev_byteorder=True)
    try:
        bitmap.fill_rect((255, 255, 255, 255), 0, 0, width, height)
        flags = pdfium_c.FPDF_ANNOT | pdfium_c.FPDF_REVERSE_BYTE_ORDER
        pdfium_c.FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, flags)
        return pixels.without_idle_colours(bitmap.to_numpy())
    finally:
        bitmap.close()  # the buffer stays, it is ours
