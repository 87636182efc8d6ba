"""Image files as documents: scans, photos and screenshots, of one page or, in a TIFF, of many."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pillow_heif
from PIL import Image

from pagewarden.reading import engine, pixels, trouble

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from pagewarden.reading import pages
    from pagewarden.reading.limits import Limits

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

# A JPEG that lost its last bytes still has its page, and is read. One that lost more is refused,
# with how much is left: a page that silently ends halfway is a page lost.
_WHOLE_ENOUGH = 0.9

_PLAUSIBLE_DPI = (70.0, 1200.0)
_LONGEST_PAGE_INCHES = 36.0  # cameras write 72 dpi into photos that would then be metres wide
_A4_INCHES = 11.69

_ORIENTATION_TAG = 0x0112
_SUBFILE_TAG = 254
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a frame becomes a page: scaled by this much to this size, turned, of this resolution."""

    original: tuple[int, int]
    scale: float
    size: tuple[int, int]
    orientation: int
    dpi: float


class ImageDocument:
    """An image file; every page is a frame of it.

    Of an animation only the first frame is a page: the others are the same picture, moving. The
    frames of a TIFF are pages, except small copies of other frames.
    """

    def __init__(self, path: Path, kind: str, limits: Limits, name: str) -> None:
        self.kind = kind
        self._path = path
        self._limits = limits
        self._name = name
        self._frames = [0]
        if kind == "tiff":
            with self._guarded(None):
                self._frames = self._find_pages_of_tiff()
        self.page(1)  # a file of which not even this can be told is refused as a whole

    @property
    def page_count(self) -> int:
        """Count the pages."""
        return len(self._frames)

    def page(self, number: int) -> ImagePage:
        """Look at the header of a page, counted from 1."""
        with self._opened(number) as image:
            self._check_size(image.size, number)
            return ImagePage(self, number, _plan(image, self._limits))

    def load(self, number: int, plan: Plan) -> NDArray[np.uint8]:
        """Decode a page as planned when its header was read."""
        small = self._load_unturned(number, plan)
        turn = _TURNS.get(plan.orientation)
        upright = small if turn is None else small.transpose(turn)
        return pixels.without_idle_colours(np.asarray(upright))

    def _load_unturned(self, number: int, plan: Plan) -> Image.Image:
        if self.kind == "webp" and plan.scale < 0.5:
            with self._guarded(number):
                return pixels.decode_large_webp(self._path, plan.size)
        with self._opened(number) as image:
            if self.kind == "jpeg":
                image.draft(None, plan.size)  # the decoder itself leaves pixels out
                share = pixels.decode_jpeg(image)
                if share < _WHOLE_ENOUGH:
                    raise trouble.damaged(self._name, detail=f"only {share:.0%} of it is there")
            else:
                image.load()
            return pixels.shrink(image, plan.size)

    def close(self) -> None:
        """Do nothing: the file is open only while a page is read."""

    def _find_pages_of_tiff(self) -> list[int]:
        frames: list[int] = []
        with self._open() as image:
            for frame in range(self._limits.pages + 1):
                try:
                    image.seek(frame)
                except EOFError:
                    return frames or [0]
                except Exception:  # noqa: BLE001  # see trouble.parsing; reading the page will tell
                    return [*frames, frame]
                if not image.getexif().get(_SUBFILE_TAG, 0) & 1:
                    frames.append(frame)
        raise trouble.too_many_pages(self._name, len(frames), self._limits)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Image.Image]:
        pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
        # Given a path, Pillow maps some files into memory, and then gets turned TIFFs wrong.
        with (
            self._path.open("rb") as file,
            Image.open(file, formats=(_PLUGINS[self.kind],)) as image,
        ):
            yield image

    @contextlib.contextmanager
    def _opened(self, number: int) -> Iterator[Image.Image]:
        # Opened anew for every page: frames of one size would share their memory, and one that is
        # cut off would show the page before it.
        with self._guarded(number), self._open() as image:
            if self.kind == "tiff":  # the others begin with the picture that is meant
                image.seek(self._frames[number - 1])
            yield image

    @contextlib.contextmanager
    def _guarded(self, number: int | None) -> Iterator[None]:
        page = None if number is None else self._mention(number)
        # Opening a WebP takes the memory of all its pixels, so Pillow has to refuse it; of the
        # others opening reads the header, and _check_size can say how large they are.
        Image.MAX_IMAGE_PIXELS = self._limits.pixels if self.kind == "webp" else None
        with trouble.parsing(self._name, page), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata is no reason not to read a page
            try:
                yield
            except Image.DecompressionBombError as error:
                raise trouble.too_many_pixels(
                    self._name, page, "too many pixels", self._limits
                ) from error

    def _check_size(self, size: tuple[int, int], number: int) -> None:
        page, words = self._mention(number), f"{size[0]:,} x {size[1]:,} pixels"
        if math.prod(size) > self._limits.pixels:
            raise trouble.too_many_pixels(self._name, page, words, self._limits)
        if max(size) > self._limits.longest_side:
            raise trouble.too_long(self._name, page, words, self._limits)

    def _mention(self, number: int) -> int | None:
        return number if self.page_count > 1 else None


class ImagePage:
    """A frame of an image file, decoded when asked for."""

    def __init__(self, document: ImageDocument, number: int, plan: Plan) -> None:
        self._document = document
        self._number = number
        self._plan = plan
        self.width, self.height = _turned(plan.size, plan.orientation)
        self.original = _turned(plan.original, plan.orientation)
        self.dpi = plan.dpi

    def layer(self) -> tuple[pages.Line, ...] | None:
        """Say that there is none."""
        return None

    def render(self) -> engine.PageImage:
        """Decode the page, upright as its EXIF orientation wants it."""
        return engine.PageImage(self._document.load(self._number, self._plan), self.dpi)


def _turned(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    width, height = size
    return (height, width) if orientation >= 5 else (width, height)


def _plan(image: Image.Image, limits: Limits) -> Plan:
    scale = min(1.0, math.sqrt(limits.working_pixels / math.prod(image.size)))
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    # Pillow turns TIFFs itself while it loads them, and states their size turned.
    orientation = 1 if image.format == "TIFF" else image.getexif().get(_ORIENTATION_TAG, 1)
    turn = orientation if orientation in _TURNS else 1
    return Plan(image.size, scale, size, turn, _resolution(image) * scale)


def _resolution(image: Image.Image) -> float:
    stated = image.info.get("dpi")
    longest = max(image.size)
    low, high = _PLAUSIBLE_DPI
    if isinstance(stated, tuple):
        dpi = float(max(stated))
        if low <= dpi <= high and longest / dpi <= _LONGEST_PAGE_INCHES:
            return dpi
    return min(max(longest / _A4_INCHES, low), high)
