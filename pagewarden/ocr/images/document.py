"""Image files as documents: scans, photos and screenshots; a TIFF may have many pages."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pillow_heif
from PIL import Image

from pagewarden.ocr.engines import base
from pagewarden.ocr.images import pixels
from pagewarden.ocr.limits import (
    damaged_file_error,
    side_too_long_error,
    too_many_pages_error,
    too_many_pixels_error,
    translate_parser_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from pagewarden.ocr import pages
    from pagewarden.ocr.limits import Limits

_PLUGINS = {
    "jpeg": "JPEG",
    "png": "PNG",
    "webp": "WEBP",
    "tiff": "TIFF",
    "heic": "HEIF",
    "avif": "AVIF",
    "jp2": "JPEG2000",
    "bmp": "BMP",
    "gif": "GIF",
}

# A JPEG without its last bytes is read. If more is missing it is rejected, because the end of the
# page would be lost silently.
_MIN_DECODED_SHARE = 0.9

_PLAUSIBLE_DPI = (70.0, 1200.0)
_MAX_PAGE_INCHES = 36.0  # cameras write 72 dpi into photos that would then be metres wide
_A4_INCHES = 11.69

_ORIENTATION_TAG = 0x0112
_SUBFILE_TAG = 254
_TRANSPOSITIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """How to decode a frame: the scaled size before rotation, the EXIF orientation, and the dpi."""

    original: tuple[int, int]
    scale: float
    size: tuple[int, int]
    orientation: int
    dpi: float


class ImageDocument:
    """An image file.

    All frames of a TIFF are pages, except thumbnails of other frames. Of other files, such as
    animations, only the first frame is a page.
    """

    def __init__(self, path: Path, kind: str, limits: Limits, name: str) -> None:
        self.kind = kind
        self._path = path
        self._limits = limits
        self._name = name
        self._frames = [0]
        if kind == "tiff":
            with self._translate_errors(None):
                self._frames = self._find_tiff_pages()
        self.open_page(1)  # reject a file whose first header cannot be read

    @property
    def page_count(self) -> int:
        """The number of pages."""
        return len(self._frames)

    def open_page(self, number: int) -> ImagePage:
        """Read the header of a page, counted from 1."""
        with self._open_frame(number) as image:
            self._check_size(image.size, number)
            return ImagePage(self, number, _make_plan(image, self._limits))

    def load(self, number: int, plan: DecodePlan) -> NDArray[np.uint8]:
        """Decode a page as planned when its header was read."""
        small = self._load_scaled(number, plan)
        method = _TRANSPOSITIONS.get(plan.orientation)
        upright = small if method is None else small.transpose(method)
        return pixels.drop_redundant_colours(np.asarray(upright))

    def _load_scaled(self, number: int, plan: DecodePlan) -> Image.Image:
        if self.kind == "webp" and plan.scale < 0.5:
            with self._translate_errors(number):
                return pixels.decode_large_webp(self._path, plan.size)
        with self._open_frame(number) as image:
            if self.kind == "jpeg":
                image.draft(None, plan.size)  # lets the decoder skip pixels
                share = pixels.decode_jpeg(image)
                if share < _MIN_DECODED_SHARE:
                    raise damaged_file_error(
                        self._name, detail=f"only {share:.0%} of it can be decoded"
                    )
            else:
                image.load()
            return pixels.shrink(image, plan.size)

    def close(self) -> None:
        """Do nothing: the file is open only while a page is decoded."""

    def _find_tiff_pages(self) -> list[int]:
        frames: list[int] = []
        with self._open() as image:
            for frame in range(self._limits.pages + 1):
                try:
                    image.seek(frame)
                except EOFError:
                    return frames or [0]
                except Exception:  # noqa: BLE001  # decoding that page raises it again
                    return [*frames, frame]
                if not image.getexif().get(_SUBFILE_TAG, 0) & 1:
                    frames.append(frame)
        raise too_many_pages_error(self._name, len(frames), self._limits)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Image.Image]:
        pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
        # Given a path, Pillow maps some files into memory, and then decodes rotated TIFFs wrongly.
        with (
            self._path.open("rb") as file,
            Image.open(file, formats=(_PLUGINS[self.kind],)) as image,
        ):
            yield image

    @contextlib.contextmanager
    def _open_frame(self, number: int) -> Iterator[Image.Image]:
        # The file is opened again for every page: frames of the same size share memory, and a
        # truncated frame would show the previous page.
        with self._translate_errors(number), self._open() as image:
            if self.kind == "tiff":  # other files begin with the primary image
                image.seek(self._frames[number - 1])
            yield image

    @contextlib.contextmanager
    def _translate_errors(self, number: int | None) -> Iterator[None]:
        page = None if number is None else self._get_page_for_message(number)
        # Opening a WebP allocates memory for all its pixels, so Pillow has to reject it. For other
        # types, opening reads only the header, and _check_size reports the size.
        Image.MAX_IMAGE_PIXELS = self._limits.pixels if self.kind == "webp" else None
        with translate_parser_errors(self._name, page), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unusual metadata does not matter
            try:
                yield
            except Image.DecompressionBombError as error:
                raise too_many_pixels_error(
                    self._name, page, "too many pixels", self._limits
                ) from error

    def _check_size(self, size: tuple[int, int], number: int) -> None:
        page, size_text = self._get_page_for_message(number), f"{size[0]:,} x {size[1]:,} pixels"
        if math.prod(size) > self._limits.pixels:
            raise too_many_pixels_error(self._name, page, size_text, self._limits)
        if max(size) > self._limits.longest_side:
            raise side_too_long_error(self._name, page, size_text, self._limits)

    def _get_page_for_message(self, number: int) -> int | None:
        return number if self.page_count > 1 else None


class ImagePage:
    """A frame of an image file, decoded by `render`."""

    def __init__(self, document: ImageDocument, number: int, plan: DecodePlan) -> None:
        self._document = document
        self._number = number
        self._plan = plan
        self.width, self.height = _compute_upright_size(plan.size, plan.orientation)
        self.original = _compute_upright_size(plan.original, plan.orientation)
        self.dpi = plan.dpi

    def read_text_layer(self) -> tuple[pages.Line, ...] | None:
        """Return None: an image has no text layer."""
        return None

    def render(self) -> base.PageImage:
        """Decode the page, upright according to its EXIF orientation."""
        return base.PageImage(self._document.load(self._number, self._plan), self.dpi)


def _compute_upright_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    width, height = size
    return (height, width) if orientation >= 5 else (width, height)


def _make_plan(image: Image.Image, limits: Limits) -> DecodePlan:
    scale = min(1.0, math.sqrt(limits.working_pixels / math.prod(image.size)))
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    # Pillow itself rotates TIFFs when it loads them, and returns the rotated size.
    orientation = 1 if image.format == "TIFF" else image.getexif().get(_ORIENTATION_TAG, 1)
    orientation = orientation if orientation in _TRANSPOSITIONS else 1
    return DecodePlan(image.size, scale, size, orientation, _find_dpi(image) * scale)


def _find_dpi(image: Image.Image) -> float:
    stated = image.info.get("dpi")
    longest = max(image.size)
    low, high = _PLAUSIBLE_DPI
    if isinstance(stated, tuple):
        dpi = float(max(stated))
        if low <= dpi <= high and longest / dpi <= _MAX_PAGE_INCHES:
            return dpi
    return min(max(longest / _A4_INCHES, low), high)
