"""PDFs as documents: pages with a text layer, pages that are scans, and pages that are broken.

PDFium reads them. Where it cannot, poppler has a try, if it is installed.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

import pikepdf
import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it has no stubs
import pypdfium2.raw as pdfium_c  # type: ignore[import-untyped]

from pagewarden import errors
from pagewarden.reading import engine, pdfpage, pdftext, pixels, poppler, textlayer, trouble

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from pagewarden.reading import pages
    from pagewarden.reading.limits import Limits

_DIGITAL_DPI = 300.0
_SCAN_DPI = (72.0, 600.0)
_SCAN_SHARE = 0.5  # a page that is half covered by images is taken for a scan
_STRIP_SHARE = 0.05  # a scan may come in strips; smaller images say nothing of its resolution

# PDFium leaves out vertical text for which it has no font; then it finds next to nothing.
_LEAST_CHARS = 0.2  # to the piece of text; a piece may also be a mere blank

# PDFium keeps the bytes of every stream it touched until the document is closed.
_BYTES_BEFORE_REOPENING = 8 * 1024 * 1024


class PdfDocument:
    """A PDF, of which one page at a time is held in memory."""

    kind = "pdf"

    def __init__(self, path: Path, limits: Limits, *, name: str, password: str | None) -> None:
        self.limits = limits
        self.name = name
        self._path = path
        self._password = password
        self._loaded: tuple[int, pdfium.PdfPage] | None = None
        with trouble.parsing(name):
            self._file = self._open()
            self.page_count = len(self._file) if self._file else poppler.count_pages(path, password)
        if self.page_count < 1:
            raise trouble.damaged(name)
        if self.page_count > limits.pages:
            raise trouble.too_many_pages(name, self.page_count, limits)
        bytes_per_page = max(1, path.stat().st_size // self.page_count)
        self._pages_before_reopening = max(1, _BYTES_BEFORE_REOPENING // bytes_per_page)
        self._pages_since_opening = 0

    def page(self, number: int) -> PdfPage | PopplerPage:
        """Open a page, counted from 1, and close the one before it."""
        with trouble.parsing(self.name, number):
            try:
                page = self.load(number)
            except pdfium.PdfiumError as error:
                picture = self.render_by_poppler(number)
                if picture is None:
                    raise trouble.damaged(self.name, number) from error
                return PopplerPage(picture)
            return PdfPage(self, number, page)

    def load(self, number: int) -> pdfium.PdfPage:
        """Give PDFium's page, which lives until another one is loaded."""
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
        page = pdfpage.load(self._file, number)
        self._loaded = (number, page)
        return page

    def render_by_poppler(self, number: int) -> engine.PageImage | None:
        """Try the other program on a page; None if it fails too, or shows nothing either."""
        # Where the two do not count the same pages, its page of this number may be another one.
        if poppler.count_pages(self._path, self._password) != self.page_count:
            return None
        size = poppler.page_size(self._path, number, self._password)
        if size is None:
            return None
        dpi = max(1, int(fitting_dpi(_DIGITAL_DPI, *size, self.limits)))
        picture = poppler.render(self._path, number, dpi, self._password)
        return None if picture is None else engine.PageImage(picture, dpi)

    def is_broken(self, number: int) -> bool:
        """Tell whether the drawing instructions of a page cannot be decoded, as far as is known."""
        try:
            file = pikepdf.open(self._path, password=self._password or "")
        except pikepdf.PdfError:
            return False
        with file:
            return number <= len(file.pages) and _is_undecodable(file, file.pages[number - 1])

    def close(self) -> None:
        """Let go of the file."""
        self._unload()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _unload(self) -> None:
        if self._loaded:
            self._loaded[1].close()
            self._loaded = None

    def _open(self) -> pdfium.PdfDocument | None:
        """Open it with PDFium; None if that cannot."""
        try:
            file = pdfium.PdfDocument(self._path, self._password)
        except pdfium.PdfiumError as error:
            if error.err_code in (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY):
                raise self._encrypted() from error
            return None
        with contextlib.suppress(pdfium.PdfiumError):  # then fields stay as they are drawn
            file.init_forms()
        return file

    def _encrypted(self) -> errors.EncryptedFile:
        given = self._password is not None
        reason = "the password does not fit" if given else "protected by a password"
        return errors.EncryptedFile(
            f"{self.name}: {reason}. Give the password that opens it, or save it without one."
        )


class PdfPage:
    """A page that PDFium can open."""

    def __init__(self, document: PdfDocument, number: int, page: pdfium.PdfPage) -> None:
        self._document = document
        self._number = number
        contents = pdfpage.contents(page)
        self._texts = contents.texts
        self._pictures = contents.pictures
        self._is_scan = sum(picture.share for picture in self._pictures) >= _SCAN_SHARE
        width, height = page.get_size()
        self.dpi = fitting_dpi(self._wanted_dpi(), width, height, document.limits)
        self.width = max(1, round(width * self.dpi / 72))
        self.height = max(1, round(height * self.dpi / 72))
        self.original = self.width, self.height

    def layer(self) -> tuple[pages.Line, ...] | None:
        """Give the text layer if it is sound."""
        with trouble.parsing(self._document.name, self._number):
            page = self._document.load(self._number)
            text = page.get_textpage()
            try:
                chars = pdftext.glyphs(text, pdfpage.to_pixels(page, self.width, self.height))
            finally:
                text.close()
            if len(chars) < _LEAST_CHARS * self._texts:
                return None
            sketch = self._sketch if self._is_scan else None
            return textlayer.sound_lines(chars, self.width, self.height, sketch)

    def render(self) -> engine.PageImage:
        """Make the page image; a scan in the resolution it was scanned at."""
        with trouble.parsing(self._document.name, self._number):
            picture = self._picture(self.width, self.height)
            if pixels.is_blank(picture):
                picture = self._second_try(picture)
            return engine.PageImage(picture, self.dpi)

    def _wanted_dpi(self) -> float:
        if not self._is_scan:
            return _DIGITAL_DPI
        large = [picture for picture in self._pictures if picture.share >= _STRIP_SHARE]
        own = max(picture.dpi for picture in large or self._pictures)
        return min(max(own, _SCAN_DPI[0]), _SCAN_DPI[1])

    def _sketch(self) -> NDArray[np.uint8]:
        scale = min(1.0, textlayer.SKETCH_DPI / self.dpi)
        return self._picture(max(1, round(self.width * scale)), max(1, round(self.height * scale)))

    def _picture(self, width: int, height: int) -> NDArray[np.uint8]:
        limits = self._document.limits
        for image in self._pictures:
            if image.width * image.height > limits.pixels:
                size = f"an image of {image.width:,} x {image.height:,} pixels"
                raise trouble.too_many_pixels(self._document.name, self._number, size, limits)
        return pdfpage.picture_of(self._document.load(self._number), width, height)

    def _second_try(self, blank: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Find out whether a page that shows nothing is empty or broken."""
        page = self._document.load(self._number)
        if pdfpage.images_are_sound(page) and not self._document.is_broken(self._number):
            return blank
        image = self._document.render_by_poppler(self._number)
        if image is None:
            raise trouble.damaged(self._document.name, self._number, "nothing of it can be decoded")
        return pixels.resized(image.pixels, self.width, self.height)


class PopplerPage:
    """A page that only poppler could render; it is there already."""

    def __init__(self, image: engine.PageImage) -> None:
        self._image = image
        self.width = image.width
        self.height = image.height
        self.original = image.width, image.height
        self.dpi = image.dpi

    def layer(self) -> tuple[pages.Line, ...] | None:
        """Say that there is none."""
        return None

    def render(self) -> engine.PageImage:
        """Give the page image."""
        return self._image


def _is_undecodable(file: pikepdf.Pdf, page: pikepdf.Page) -> bool:
    contents = page.obj.get("/Contents")
    file.get_warnings()  # those of the rest of the file are not this page's
    try:
        for stream in contents if isinstance(contents, pikepdf.Array) else [contents]:
            if isinstance(stream, pikepdf.Stream):
                stream.read_bytes()
    except pikepdf.PdfError:
        return True
    return bool(file.get_warnings())


def fitting_dpi(wanted: float, width: float, height: float, limits: Limits) -> float:
    """Lower a resolution so far that a page, its size in points, keeps to the limits."""
    wide, high = max(width, 1.0) / 72, max(height, 1.0) / 72
    by_area = math.sqrt(limits.working_pixels / (wide * high))
    by_side = limits.longest_side / max(wide, high)
    return min(wanted, by_area, by_side)
