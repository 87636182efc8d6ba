"""From any image Pillow opens to the grey or RGB pixels an engine reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image, ImageFile

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_BAND_PIXELS = 4_000_000
_GREY_MODES = frozenset({"1", "L", "LA", "La", "LAB"})
_DEEP_MODES = frozenset({"I", "F", "I;16", "I;16L", "I;16B", "I;16N"})
_WHITES = (1.0, 255.0, 4095.0, 65535.0)


def decode_jpeg(image: Image.Image) -> float:
    """Decode a JPEG as far as it goes, and tell how far that is: 1.0, or the share of its rows.

    The rows of a progressive one come little by little, so that a part of it is worth nothing.
    """
    try:
        image.load()
    except OSError:
        if "progressive" in image.info:
            raise
        return _decode_leniently(image)
    return 1.0


def _decode_leniently(image: Image.Image) -> float:
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        image.load()
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False
    # What is missing is filled with the grey in the middle, which inverted is one less.
    rows = np.asarray(image).reshape(image.height, -1)
    there = np.flatnonzero(((rows < 127) | (rows > 128)).any(axis=1))
    return (int(there[-1]) + 1) / image.height if len(there) else 0.0


def decode_large_webp(path: Path, size: tuple[int, int]) -> Image.Image:
    """Decode a WebP, without its alpha, and scale it to this size.

    Pillow takes 16 bytes for each of its pixels, OpenCV 3.
    """
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    picture = cv2.imdecode(np.fromfile(path, np.uint8), flags)
    if picture is None:
        raise ValueError("it cannot be decoded")
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return Image.fromarray(cv2.cvtColor(small, cv2.COLOR_BGR2RGB))


def shrink(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Make it grey or RGB of 8 bits on white paper, in a size that is not larger than it is."""
    step = max(1, min(image.width // size[0], image.height // size[1]))
    mode = "L" if image.mode in _GREY_MODES | _DEEP_MODES else "RGB"
    ready = step == 1 and image.mode == mode and not image.has_transparency_data
    small = image if ready else _reduced(image, mode, step)
    return small if small.size == size else small.resize(size, Image.Resampling.BICUBIC)


def _reduced(image: Image.Image, mode: str, step: int) -> Image.Image:
    """Flatten it and take step x step pixels for one.

    This goes band by band, as of a large image a second copy of all its pixels is too much.
    """
    white = _white(image)
    rows = step * max(1, _BAND_PIXELS // (image.width * step))
    small = Image.new(mode, (-(-image.width // step), -(-image.height // step)))
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        small.paste(_flatten(band, white).reduce(step), (0, top // step))
    return small


def _white(image: Image.Image) -> float:
    """Guess what white is where a mode does not say: 12 bits are often kept in 16."""
    if image.mode not in _DEEP_MODES:
        return 255.0
    brightest = float(np.max(image.getextrema()))
    return next((white for white in _WHITES if brightest <= white), brightest)


def _flatten(band: Image.Image, white: float) -> Image.Image:
    if band.mode in _DEEP_MODES:
        values = np.asarray(band, dtype=np.float32) * (255.0 / white)
        return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    grey = band.mode in _GREY_MODES
    if band.has_transparency_data:
        return _on_white(band.convert("LA" if grey else "RGBA"))
    if band.mode == "LAB":
        return band.getchannel("L")
    return band.convert("L" if grey else "RGB")


def _on_white(band: Image.Image) -> Image.Image:
    paper = Image.new("L" if band.mode == "LA" else "RGB", band.size, "white")
    paper.paste(band.convert(paper.mode), mask=band.getchannel("A"))
    return paper


def without_idle_colours(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Give one channel where all three say the same."""
    if pixels.ndim == 2:
        return pixels
    # Most coloured pages show it in a few of their pixels: no need to compare them all.
    if _is_grey(pixels[::61, ::61]) and _is_grey(pixels):
        return np.ascontiguousarray(pixels[:, :, 0])
    return pixels


def _is_grey(pixels: NDArray[np.uint8]) -> bool:
    red, green, blue = pixels[:, :, 0], pixels[:, :, 1], pixels[:, :, 2]
    return bool(np.array_equal(red, green) and np.array_equal(green, blue))


def is_blank(picture: NDArray[np.uint8]) -> bool:
    """Tell whether all pixels are of one colour."""
    return bool((picture == picture[0, 0]).all())


def resized(picture: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Scale a picture to exactly this size."""
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))
