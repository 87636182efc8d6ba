"""Image files as pages of a PDF, as large as they are on paper."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from typing import TYPE_CHECKING

import pikepdf
import pillow_heif
from PIL import Image

from pagewarden import errors
from pagewarden.exports import image_streams, streams
from pagewarden.reading import limits, pages, trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pagewarden.exports.document import Document

_SUBFILE_TAG = 254
_A4 = (595.0, 842.0)
_SMALLEST, _LARGEST = 3.0, 14_400.0  # what a PDF can have, in points
_DEFAULT_DPI = 72.0
_MOST_PIXELS = limits.Limits().pixels
# Perhaps no machine could open them.
_UNSEEN = {pages.Source.FAILED, pages.Source.PERSON}

Turn = tuple[int, int, int, int, int, int]

# What the eight orientations of EXIF do to the unit square.
_TURNS: dict[int, Turn] = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}


class Picture:
    """An image file whose frames become pages of a PDF."""

    def __init__(self, document: Document) -> None:
        self._document = document
        with trouble.parsing(document.name), self._opened() as image:
            self._frames = _frames(image)

    def add_page(self, pdf: pikepdf.Pdf, page: pages.ReadPage) -> pikepdf.Page:
        """Add a page with its frame; one that was not read and cannot be shown is blank."""
        try:
            with trouble.parsing(self._document.name, page.number):
                stream, turn = self._embed(pdf, page)
        except errors.ReadingError:
            if page.source not in _UNSEEN:
                raise
            return pdf.add_blank_page(page_size=_paper(page, (page.width, page.height)))
        size = (int(stream.Width), int(stream.Height))
        made = pdf.add_blank_page(page_size=_paper(page, size if turn[0] else size[::-1]))
        _draw(pdf, made, stream, turn)
        return made

    def _embed(self, pdf: pikepdf.Pdf, page: pages.ReadPage) -> tuple[pikepdf.Stream, Turn]:
        # Opened anew for every page: frames share memory, and one that is cut off would show the
        # page before it.
        with self._opened() as image:
            image.seek(self._frames[page.number - 1])
            if page.source in _UNSEEN and math.prod(image.size) > _MOST_PIXELS:
                raise trouble.damaged(self._document.name, page.number, "too many pixels")
            stream, orientation = image_streams.embed(pdf, image, self._document.source)
        return stream, _TURNS.get(orientation, _TURNS[1])

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Image.Image]:
        """Open the file, however large its images are: the reader has seen to that."""
        pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
        most, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            # Given a path, Pillow maps some files into memory, and then gets turned TIFFs wrong.
            with warnings.catch_warnings(), self._document.source.open("rb") as file:
                warnings.simplefilter("ignore")  # odd metadata is no reason not to show a page
                with Image.open(file) as image:
                    yield image
        finally:
            Image.MAX_IMAGE_PIXELS = most


def _frames(image: Image.Image) -> Sequence[int]:
    """Find the frames that are pages: of a TIFF all but small copies, otherwise the first."""
    if image.format != "TIFF":
        return [0]
    frames = []
    with contextlib.suppress(Exception):  # EOFError at the end, or whatever a broken frame raises
        for frame in itertools.count():
            image.seek(frame)
            if not image.getexif().get(_SUBFILE_TAG, 0) & 1:
                frames.append(frame)
    return frames or [0]


def _draw(pdf: pikepdf.Pdf, page: pikepdf.Page, stream: pikepdf.Stream, turn: Turn) -> None:
    """Let the image fill the page, turned as its orientation wants it."""
    _, _, width, height = (float(edge) for edge in page.mediabox)
    numbers = (number * (width, height)[count % 2] for count, number in enumerate(turn))
    place = " ".join(f"{number:.4f}" for number in numbers)
    page.obj.Contents = streams.compressed(pdf, f"q {place} cm /Scan Do Q\n".encode())
    page.obj.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Scan=stream))


def _paper(page: pages.ReadPage, size: tuple[int, int]) -> tuple[float, float]:
    """Find the size in points, from what the reader knows or else from the image."""
    width, height = (page.width, page.height) if page.width and page.height else size
    if not (width and height):
        return _A4
    inch = 72 / (page.dpi if page.dpi > 0 else _DEFAULT_DPI)
    shrink = min(1, _LARGEST / (max(width, height) * inch))
    return max(width * inch * shrink, _SMALLEST), max(height * inch * shrink, _SMALLEST)
