"""Image files as PDF pages of their physical size.

JPEG and PNG data is embedded as it is, other formats are re-encoded losslessly.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import struct
import warnings
import zlib
from typing import TYPE_CHECKING

import pikepdf
import pillow_heif
from PIL import Image, ImageOps, TiffImagePlugin

from pagewarden import errors
from pagewarden.exports.pdf import objects
from pagewarden.ocr import limits, pages
from pagewarden.ocr.images import pixels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pagewarden.exports.base import Document

_ORIENTATION = 0x0112
_PNG_HEAD = 8
_CHANNELS = {"1": 1, "L": 1, "P": 1, "I;16": 1, "RGB": 3, "CMYK": 4}
_SPACES = {
    1: pikepdf.Name.DeviceGray,
    3: pikepdf.Name.DeviceRGB,
    4: pikepdf.Name.DeviceCMYK,
}
_PROFILES = {1: b"GRAY", 3: b"RGB ", 4: b"CMYK"}
_ONE_STRIP = 1 << 30
_PHOTOMETRIC, _STRIP_OFFSETS, _STRIP_LENGTHS = 262, 273, 279  # tags of TIFF


def embed(pdf: pikepdf.Pdf, image: Image.Image, path: Path) -> tuple[pikepdf.Stream, int]:
    """Embed the current frame of an image; return it with the EXIF orientation still to apply."""
    orientation = image.getexif().get(_ORIENTATION, 1)
    if image.format in {"JPEG", "MPO"} and image.mode in {"L", "RGB", "CMYK"}:
        return _embed_jpeg(pdf, image, path.read_bytes()), orientation
    if image.format == "PNG" and _can_embed_png(data := path.read_bytes()):
        return _embed_png(pdf, data, image), orientation
    return _embed_decoded(pdf, image), 1


def _embed_jpeg(pdf: pikepdf.Pdf, image: Image.Image, data: bytes) -> pikepdf.Stream:
    stream = _make_stream(pdf, image, data, pikepdf.Name.DCTDecode)
    if image.mode == "CMYK":  # inverted, as Adobe's programs store it and Pillow reads it
        stream.Decode = [1, 0] * 4
    return stream


def _can_embed_png(png_data: bytes) -> bool:
    """Tell whether a PDF can use the data of this PNG: not interlaced, and no transparency."""
    colour, interlaced = png_data[25], png_data[28]
    tags = {tag for tag, _ in _iterate_chunks(png_data)}
    return colour in {0, 2, 3} and not interlaced and b"tRNS" not in tags


def _embed_png(pdf: pikepdf.Pdf, png_data: bytes, image: Image.Image) -> pikepdf.Stream:
    """Embed the filtered and compressed rows unchanged; PDF supports both."""
    chunks = list(_iterate_chunks(png_data))
    rows = b"".join(data for tag, data in chunks if tag == b"IDAT")
    width, _, depth, colour = struct.unpack(">2I2B", chunks[0][1][:10])
    stream = _make_stream(pdf, image, rows, pikepdf.Name.FlateDecode)
    channels = 3 if colour == 2 else 1
    stream.BitsPerComponent = depth
    stream.DecodeParms = pikepdf.Dictionary(
        Predictor=15, Colors=channels, BitsPerComponent=depth, Columns=width
    )
    stream.ColorSpace = _find_color_space(pdf, image, channels)
    if colour == 3:
        palette = dict(chunks)[b"PLTE"]
        last = len(palette) // 3 - 1
        stream.ColorSpace = pikepdf.Array(
            [pikepdf.Name.Indexed, pikepdf.Name.DeviceRGB, last, pikepdf.String(palette)]
        )
    return stream


def _iterate_chunks(png_data: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = _PNG_HEAD
    while start + 8 <= len(png_data):
        length, tag = struct.unpack_from(">I4s", png_data, start)
        yield tag, png_data[start + 8 : start + 8 + length]
        start += length + 12


def _embed_decoded(pdf: pikepdf.Pdf, image: Image.Image) -> pikepdf.Stream:
    """Decode the frame and re-encode it losslessly, with transparent parts on white."""
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode == "1":
        return _embed_fax(pdf, upright)
    if upright.mode == "CMYK":
        return _make_stream(
            pdf, upright, zlib.compress(upright.tobytes()), pikepdf.Name.FlateDecode
        )
    if upright.mode not in _CHANNELS or upright.has_transparency_data:
        upright = pixels.shrink(upright, upright.size)
    file = io.BytesIO()
    upright.save(file, "PNG", icc_profile=None)
    return _embed_png(pdf, file.getvalue(), upright)


def _embed_fax(pdf: pikepdf.Pdf, image: Image.Image) -> pikepdf.Stream:
    """Encode a bilevel image with CCITT group 4, which takes a third of the space of PNG."""
    file = io.BytesIO()
    image.save(file, "TIFF", compression="group4", strip_size=_ONE_STRIP)
    with TiffImagePlugin.TiffImageFile(io.BytesIO(file.getvalue())) as tiff:
        start, length = (tiff.tag_v2[tag][0] for tag in (_STRIP_OFFSETS, _STRIP_LENGTHS))
        ones_are_white = tiff.tag_v2[_PHOTOMETRIC] == 1
    data = file.getvalue()[start : start + length]
    stream = _make_stream(pdf, image, data, pikepdf.Name.CCITTFaxDecode)
    stream.BitsPerComponent = 1
    stream.DecodeParms = pikepdf.Dictionary(
        K=-1, Columns=image.width, Rows=image.height, BlackIs1=ones_are_white
    )
    return stream


def _make_stream(
    pdf: pikepdf.Pdf, image: Image.Image, data: bytes, encoding: pikepdf.Name
) -> pikepdf.Stream:
    return pikepdf.Stream(
        pdf,
        data,
        Type=pikepdf.Name.XObject,
        Subtype=pikepdf.Name.Image,
        Width=image.width,
        Height=image.height,
        BitsPerComponent=8,
        ColorSpace=_find_color_space(pdf, image, _CHANNELS[image.mode]),
        Filter=encoding,
    )


def _find_color_space(pdf: pikepdf.Pdf, image: Image.Image, channels: int) -> pikepdf.Object:
    """Return the colour profile of the image if it has a matching one, else a device space."""
    profile = image.info.get("icc_profile") or b""
    if profile[16:20] != _PROFILES[channels]:
        return _SPACES[channels]
    stream = objects.compress(pdf, profile)
    stream.N = channels
    stream.Alternate = _SPACES[channels]
    return pikepdf.Array([pikepdf.Name.ICCBased, stream])


_SUBFILE_TAG = 254
_A4 = (595.0, 842.0)
_MIN_SIDE, _MAX_SIDE = 3.0, 14_400.0  # of PDF pages, in points
_DEFAULT_DPI = 72.0
_MAX_PIXELS = limits.Limits().pixels
# Pages of these sources may have images that cannot be opened.
_UNRELIABLE = {pages.TextSource.FAILED, pages.TextSource.PERSON}

Matrix = tuple[int, int, int, int, int, int]

# The EXIF orientations as transformations of the unit square.
_ORIENTATION_MATRICES: dict[int, Matrix] = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}


class ImageFile:
    """An image file whose frames become pages of a PDF."""

    def __init__(self, document: Document) -> None:
        self._document = document
        with limits.translate_parser_errors(document.name), self._open() as image:
            self._frames = _find_frames(image)

    def add_page(self, pdf: pikepdf.Pdf, page: pages.ReadPage) -> pikepdf.Page:
        """Add a page with its frame; an unreadable frame becomes a blank page."""
        try:
            with limits.translate_parser_errors(self._document.name, page.number):
                stream, matrix = self._embed(pdf, page)
        except errors.ReadingError:
            if page.source not in _UNRELIABLE:
                raise
            return pdf.add_blank_page(page_size=_compute_page_size(page, (page.width, page.height)))
        size = (int(stream.Width), int(stream.Height))
        pdf_page = pdf.add_blank_page(
            page_size=_compute_page_size(page, size if matrix[0] else size[::-1])
        )
        _draw_image(pdf, pdf_page, stream, matrix)
        return pdf_page

    def _embed(self, pdf: pikepdf.Pdf, page: pages.ReadPage) -> tuple[pikepdf.Stream, Matrix]:
        # Reopen the file for every page: frames share a buffer, so a truncated frame would show
        # the previous page.
        with self._open() as image:
            image.seek(self._frames[page.number - 1])
            if page.source in _UNRELIABLE and math.prod(image.size) > _MAX_PIXELS:
                raise limits.damaged_file_error(self._document.name, page.number, "too many pixels")
            stream, orientation = embed(pdf, image, self._document.source)
        return stream, _ORIENTATION_MATRICES.get(orientation, _ORIENTATION_MATRICES[1])

    @contextlib.contextmanager
    def _open(self) -> Iterator[Image.Image]:
        """Open the file without Pillow's size limit; the reader has checked the size."""
        pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
        max_pixels, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            # Given a path, Pillow memory-maps some files, and then reads rotated TIFFs wrongly.
            with warnings.catch_warnings(), self._document.source.open("rb") as file:
                warnings.simplefilter("ignore")  # unusual metadata does not matter here
                with Image.open(file) as image:
                    yield image
        finally:
            Image.MAX_IMAGE_PIXELS = max_pixels


def _find_frames(image: Image.Image) -> Sequence[int]:
    """Return the frames that are pages: all but thumbnails of a TIFF, else the first."""
    if image.format != "TIFF":
        return [0]
    frames = []
    with contextlib.suppress(Exception):  # EOFError at the end, any error at a broken frame
        for frame in itertools.count():
            image.seek(frame)
            if not image.getexif().get(_SUBFILE_TAG, 0) & 1:
                frames.append(frame)
    return frames or [0]


def _draw_image(
    pdf: pikepdf.Pdf, page: pikepdf.Page, stream: pikepdf.Stream, matrix: Matrix
) -> None:
    """Fill the page with the image, rotated by its orientation."""
    _, _, width, height = (float(edge) for edge in page.mediabox)
    scaled = (number * (width, height)[count % 2] for count, number in enumerate(matrix))
    operands = " ".join(f"{number:.4f}" for number in scaled)
    page.obj.Contents = objects.compress(pdf, f"q {operands} cm /Scan Do Q\n".encode())
    page.obj.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Scan=stream))


def _compute_page_size(page: pages.ReadPage, size: tuple[int, int]) -> tuple[float, float]:
    """Return the page size in points, from the read page if it is known, else from the image."""
    width, height = (page.width, page.height) if page.width and page.height else size
    if not (width and height):
        return _A4
    inch = 72 / (page.dpi if page.dpi > 0 else _DEFAULT_DPI)
    shrink = min(1, _MAX_SIDE / (max(width, height) * inch))
    return max(width * inch * shrink, _MIN_SIDE), max(height * inch * shrink, _MIN_SIDE)
