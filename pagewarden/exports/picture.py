"""Image files as pages of a PDF, as large as they are on paper."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
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

# What the eight orientations of EXIF do to the unit square.
_TURNS = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}


@dataclass(frozen=True, slots=True)
class Picture:
    """An open image file whose frames become pages of a PDF."""

    document: Document
    image: Image.Image
    frames: Sequence[int]

    def add_page(self, pdf: pikepdf.Pdf, page: pages.ReadPage) -> pikepdf.Page:
        """Add a page with its frame; one that was not read and cannot be shown is blank."""
        try:
            with trouble.parsing(self.document.name, page.number):
                return self._add_frame(pdf, page)
        except errors.ReadingError:
            if page.source is not pages.Source.FAILED:
                raise
            return pdf.add_blank_page(page_size=_paper(page, (page.width, page.height)))

    def _add_frame(self, pdf: pikepdf.Pdf, page: pages.ReadPage) -> pikepdf.Page:
        self.image.seek(self.frames[page.number - 1])
        if page.source is pages.Source.FAILED and math.prod(self.image.size) > _most_pixels():
            raise trouble.damaged(self.document.name, page.number, "too many pixels")
        stream, orientation = image_streams.embed(pdf, self.image, self.document.source)
        turn = _TURNS.get(orientation, _TURNS[1])
        size = (int(stream.Width), int(stream.Height))
        width, height = _paper(page, size if turn[0] else (size[1], size[0]))
        made = pdf.add_blank_page(page_size=(width, height))
        across, up, more_across, more_up, left, bottom = turn
        matrix = (across * width, up * height, more_across * width, more_up * height)
        place = " ".join(f"{number:.4f}" for number in (*matrix, left * width, bottom * height))
        made.obj.Contents = streams.compressed(pdf, f"q {place} cm /Scan Do Q\n".encode())
        made.obj.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Scan=stream))
        return made


@contextlib.contextmanager
def opened(document: Document) -> Iterator[Picture]:
    """Open an image file, however large: the reader has seen to its size."""
    most, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
    try:
        with warnings.catch_warnings(), contextlib.ExitStack() as closing:
            warnings.simplefilter("ignore")  # odd metadata is no reason not to show a page
            with trouble.parsing(document.name):
                image = closing.enter_context(Image.open(document.source))
                frames = _frames(image)
            yield Picture(document, image, frames)
    finally:
        Image.MAX_IMAGE_PIXELS = most


def _frames(image: Image.Image) -> Sequence[int]:
    """Find the frames that are pages: of a TIFF all but small copies, otherwise the first."""
    if image.format != "TIFF":
        return [0]
    frames = []
    with contextlib.suppress(EOFError):
        for frame in range(getattr(image, "n_frames", 1)):
            image.seek(frame)
            if not image.getexif().get(_SUBFILE_TAG, 0) & 1:
                frames.append(frame)
    return frames or [0]


def _paper(page: pages.ReadPage, size: tuple[int, int]) -> tuple[float, float]:
    """Find the size in points, from what the reader knows or else from the image."""
    width, height = (page.width, page.height) if page.width and page.height else size
    if not (width and height):
        return _A4
    inch = 72 / (page.dpi if page.dpi > 0 else _DEFAULT_DPI)
    shrink = min(1, _LARGEST / (max(width, height) * inch))
    return max(width * inch * shrink, _SMALLEST), max(height * inch * shrink, _SMALLEST)


def _most_pixels() -> int:
    return limits.Limits().pixels
