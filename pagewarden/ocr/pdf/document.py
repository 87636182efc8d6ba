"""PDF files as documents: contents, resolution, text layer and rendering of pages.

PDFium reads the pages. For broken ones, poppler is the fallback if it is installed.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pikepdf
import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it has no stubs
import pypdfium2.raw as pdfium_c  # type: ignore[import-untyped]

from pagewarden import errors
from pagewarden.ocr.engines import base
from pagewarden.ocr.images import pixels
from pagewarden.ocr.limits import (
    damaged_file_error,
    too_many_pages_error,
    too_many_pixels_error,
    translate_parser_errors,
)
from pagewarden.ocr.pdf import poppler, text_layer
from pagewarden.ocr.pdf.text import read_glyphs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from pagewarden.ocr import pages
    from pagewarden.ocr.limits import Limits

_MAX_OBJECTS = 5_000  # the image of a scan is among the first; drawings have a million lines
_MAX_FORM_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """An image on a page: its size in pixels, the share of the page, and its resolution there."""

    width: int
    height: int
    share: float
    dpi: float


@dataclass(frozen=True, slots=True)
class PageContents:
    """The images of a page, and the number of its text objects, each of a letter or more."""

    pictures: tuple[Picture, ...]
    texts: int


def load_page(document: pdfium.PdfDocument, number: int) -> pdfium.PdfPage:
    """Load a page, counted from 1, including form fields and annotations."""
    page = document[number - 1]
    if pdfium_c.FPDFPage_GetAnnotCount(page) > 0:
        # PDFium finds the text of form fields and notes only if they are part of the page.
        pdfium_c.FPDFPage_Flatten(page, pdfium_c.FLAT_NORMALDISPLAY)
        page.close()
        page = document[number - 1]
    return page


def make_pixel_matrix(page: pdfium.PdfPage, width: int, height: int) -> NDArray[np.float64]:
    """Return the 2 x 3 matrix from PDF coordinates to pixels of an image of this size."""
    left, bottom, right, top = page.get_bbox()
    # The directions of the page axes in the image, and its top left corner, by /Rotate.
    x_axis, y_axis, corner = {
        0: ((1, 0), (0, -1), (left, top)),
        90: ((0, 1), (1, 0), (left, bottom)),
        180: ((-1, 0), (0, 1), (right, bottom)),
        270: ((0, -1), (-1, 0), (right, top)),
    }[page.get_rotation()]
    rotation = np.array((x_axis, y_axis), dtype=np.float64).T
    extent = np.abs(rotation @ (right - left, top - bottom))
    linear = rotation * (np.array((width, height)) / extent)[:, np.newaxis]
    return np.column_stack((linear, -linear @ corner))


def read_contents(page: pdfium.PdfPage) -> PageContents:
    """Find the images of a page, and count its text objects."""
    page_box = page.get_bbox()
    pictures: list[Picture] = []
    texts = 0
    for raw, kind, outer in _walk_objects(page):
        texts += kind == pdfium_c.FPDF_PAGEOBJ_TEXT
        if kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            with contextlib.suppress(pdfium.PdfiumError):  # it has no size and is invisible
                pictures.append(_measure_picture(_wrap_object(raw, page), outer, page_box))
    return PageContents(tuple(pictures), texts)


def _measure_picture(
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


def _walk_objects(
    page: pdfium.PdfPage,
) -> Iterator[tuple[pdfium_c.FPDF_PAGEOBJECT, int, pdfium.PdfMatrix]]:
    """Yield the objects of a page, each with its kind and the matrix of the form around it."""
    return itertools.islice(_walk_within(page, page, pdfium.PdfMatrix(), 0), _MAX_OBJECTS)


def _walk_within(
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
        if kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth < _MAX_FORM_DEPTH:
            form = _wrap_object(raw, page)
            yield from _walk_within(form, page, form.get_matrix().multiply(outer), depth + 1)


def _wrap_object(raw: pdfium_c.FPDF_PAGEOBJECT, page: pdfium.PdfPage) -> pdfium.PdfObject:
    """Wrap an object of a page; without a page, it would be destroyed with its wrapper."""
    return pdfium.PdfObject(raw, page=page)


def can_decode_images(page: pdfium.PdfPage) -> bool:
    """Tell whether all images of the page can be decoded."""
    try:
        for raw, kind, _ in _walk_objects(page):
            if kind == pdfium_c.FPDF_PAGEOBJ_IMAGE:
                _wrap_object(raw, page).get_bitmap()
    except pdfium.PdfiumError:
        return False
    return True


def render_page(page: pdfium.PdfPage, width: int, height: int) -> NDArray[np.uint8]:
    """Render a page, as grey if it has no colours."""
    bitmap = pdfium.PdfBitmap.new_native(width, height, pdfium_c.FPDFBitmap_BGR, rev_byteorder=True)
    try:
        bitmap.fill_rect((255, 255, 255, 255), 0, 0, width, height)
        flags = pdfium_c.FPDF_ANNOT | pdfium_c.FPDF_REVERSE_BYTE_ORDER
        pdfium_c.FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, flags)
        return pixels.drop_redundant_colours(bitmap.to_numpy())
    finally:
        bitmap.close()  # the array keeps its buffer


_DIGITAL_DPI = 300.0
_SCAN_DPI = (72.0, 600.0)
_MIN_SCAN_SHARE = 0.5  # a page that is half covered by images is a scan
_MIN_STRIP_SHARE = 0.05  # a scan may consist of strips; smaller images may have another resolution

# PDFium omits vertical text without a font, and then finds almost no characters.
_MIN_CHARS_PER_TEXT = 0.2  # a text object may also be only a blank

# PDFium keeps the bytes of every stream it has read until the document is closed.
_BYTES_BEFORE_REOPENING = 8 * 1024 * 1024


class PdfDocument:
    """A PDF; one page at a time is loaded."""

    kind = "pdf"

    def __init__(self, path: Path, limits: Limits, *, name: str, password: str | None) -> None:
        self.limits = limits
        self.name = name
        self._path = path
        self._password = password
        self._loaded: tuple[int, pdfium.PdfPage] | None = None
        with translate_parser_errors(name):
            self._file = self._open()
            self.page_count = len(self._file) if self._file else poppler.count_pages(path, password)
        if self.page_count < 1:
            raise damaged_file_error(name)
        if self.page_count > limits.pages:
            raise too_many_pages_error(name, self.page_count, limits)
        bytes_per_page = max(1, path.stat().st_size // self.page_count)
        self._pages_before_reopening = max(1, _BYTES_BEFORE_REOPENING // bytes_per_page)
        self._pages_since_opening = 0

    def open_page(self, number: int) -> PdfPage | PopplerPage:
        """Open a page, counted from 1, and close the previous one."""
        with translate_parser_errors(self.name, number):
            try:
                page = self.load(number)
            except pdfium.PdfiumError as error:
                image = self.render_by_poppler(number)
                if image is None:
                    raise damaged_file_error(self.name, number) from error
                return PopplerPage(image)
            return PdfPage(self, number, page)

    def load(self, number: int) -> pdfium.PdfPage:
        """Return the page of PDFium, which is valid until another one is loaded."""
        if self._loaded and self._loaded[0] == number:
            return self._loaded[1]
        self._unload()
        self._pages_since_opening += 1
        if self._file and self._pages_since_opening > self._pages_before_reopening:
            self._file.close()
            self._file = self._open()
            self._pages_since_opening = 1
        if self._file is None:
            raise pdfium.PdfiumError("PDFium cannot open this document")
        page = load_page(self._file, number)
        self._loaded = (number, page)
        return page

    def render_by_poppler(self, number: int) -> base.PageImage | None:
        """Render a page with poppler; None if that fails too, or the page is blank."""
        # If the page counts differ, this number may be another page.
        if poppler.count_pages(self._path, self._password) != self.page_count:
            return None
        size = poppler.get_page_size(self._path, number, self._password)
        if size is None:
            return None
        dpi = max(1, int(fit_dpi(_DIGITAL_DPI, *size, self.limits)))
        picture = poppler.render(self._path, number, dpi, self._password)
        return None if picture is None else base.PageImage(picture, dpi)

    def is_broken(self, number: int) -> bool:
        """Tell whether the content stream of a page cannot be decoded; False if unknown."""
        try:
            file = pikepdf.open(self._path, password=self._password or "")
        except pikepdf.PdfError:
            return False
        with file:
            return number <= len(file.pages) and _is_undecodable(file, file.pages[number - 1])

    def close(self) -> None:
        """Close the file."""
        self._unload()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _unload(self) -> None:
        if self._loaded:
            self._loaded[1].close()
            self._loaded = None

    def _open(self) -> pdfium.PdfDocument | None:
        """Open the file with PDFium; None if PDFium cannot open it."""
        try:
            file = pdfium.PdfDocument(self._path, self._password)
        except pdfium.PdfiumError as error:
            if error.err_code in (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY):
                raise self._make_encrypted_error() from error
            return None
        with contextlib.suppress(pdfium.PdfiumError):  # fields are then rendered as saved
            file.init_forms()
        return file

    def _make_encrypted_error(self) -> errors.EncryptedFile:
        has_password = self._password is not None
        reason = "incorrect password" if has_password else "protected by a password"
        return errors.EncryptedFile(
            f"{self.name}: {reason}. Enter the correct password, or save the file without one."
        )


class PdfPage:
    """A page that PDFium has opened."""

    def __init__(self, document: PdfDocument, number: int, page: pdfium.PdfPage) -> None:
        self._document = document
        self._number = number
        contents = read_contents(page)
        self._texts = contents.texts
        self._pictures = contents.pictures
        self._is_scan = sum(picture.share for picture in self._pictures) >= _MIN_SCAN_SHARE
        width, height = page.get_size()
        self.dpi = fit_dpi(self._choose_dpi(), width, height, document.limits)
        self.width = max(1, round(width * self.dpi / 72))
        self.height = max(1, round(height * self.dpi / 72))
        self.original = self.width, self.height

    def read_text_layer(self) -> tuple[pages.Line, ...] | None:
        """Return the lines of the text layer if it can be trusted."""
        with translate_parser_errors(self._document.name, self._number):
            page = self._document.load(self._number)
            text = page.get_textpage()
            try:
                chars = read_glyphs(text, make_pixel_matrix(page, self.width, self.height))
            finally:
                text.close()
            if len(chars) < _MIN_CHARS_PER_TEXT * self._texts:
                return None
            render_sketch = self._render_sketch if self._is_scan else None
            return text_layer.read_trusted_lines(chars, self.width, self.height, render_sketch)

    def render(self) -> base.PageImage:
        """Render the page; a scan in its own resolution."""
        with translate_parser_errors(self._document.name, self._number):
            rendered = self._render(self.width, self.height)
            if pixels.is_blank(rendered):
                rendered = self._check_blank(rendered)
            return base.PageImage(rendered, self.dpi)

    def _choose_dpi(self) -> float:
        if not self._is_scan:
            return _DIGITAL_DPI
        large = [picture for picture in self._pictures if picture.share >= _MIN_STRIP_SHARE]
        dpi = max(picture.dpi for picture in large or self._pictures)
        return min(max(dpi, _SCAN_DPI[0]), _SCAN_DPI[1])

    def _render_sketch(self) -> NDArray[np.uint8]:
        scale = min(1.0, text_layer.SKETCH_DPI / self.dpi)
        return self._render(max(1, round(self.width * scale)), max(1, round(self.height * scale)))

    def _render(self, width: int, height: int) -> NDArray[np.uint8]:
        limits = self._document.limits
        for picture in self._pictures:
            if picture.width * picture.height > limits.pixels:
                size = f"an image of {picture.width:,} x {picture.height:,} pixels"
                raise too_many_pixels_error(self._document.name, self._number, size, limits)
        return render_page(self._document.load(self._number), width, height)

    def _check_blank(self, blank: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return a blank page if it is really empty; render it with poppler if it is broken."""
        page = self._document.load(self._number)
        if can_decode_images(page) and not self._document.is_broken(self._number):
            return blank
        image = self._document.render_by_poppler(self._number)
        if image is None:
            raise damaged_file_error(self._document.name, self._number, "it cannot be decoded")
        return pixels.resize(image.pixels, self.width, self.height)


class PopplerPage:
    """A page that poppler has already rendered, because PDFium cannot open it."""

    def __init__(self, image: base.PageImage) -> None:
        self._image = image
        self.width = image.width
        self.height = image.height
        self.original = image.width, image.height
        self.dpi = image.dpi

    def read_text_layer(self) -> tuple[pages.Line, ...] | None:
        """Return None: the text layer is not available."""
        return None

    def render(self) -> base.PageImage:
        """Return the page image."""
        return self._image


def _is_undecodable(file: pikepdf.Pdf, page: pikepdf.Page) -> bool:
    contents = page.obj.get("/Contents")
    file.get_warnings()  # discard warnings about the rest of the file
    try:
        for stream in contents if isinstance(contents, pikepdf.Array) else [contents]:
            if isinstance(stream, pikepdf.Stream):
                stream.read_bytes()
    except pikepdf.PdfError:
        return True
    return bool(file.get_warnings())


def fit_dpi(dpi: float, width: float, height: float, limits: Limits) -> float:
    """Lower a resolution as far as the limits require; the size of the page is in points."""
    width, height = max(width, 1.0) / 72, max(height, 1.0) / 72
    by_area = math.sqrt(limits.working_pixels / (width * height))
    by_side = limits.longest_side / max(width, height)
    return min(dpi, by_area, by_side)
