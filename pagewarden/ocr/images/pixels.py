"""Decode, shrink and rotate images; encode JPEG and PNG.

Images become grey or RGB pixels of 8 bits, as engines need them.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image, ImageFile

from pagewarden.ocr import limits

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_BAND_PIXELS = 4_000_000
_GREY_MODES = frozenset({"1", "L", "LA", "La", "LAB"})
_DEEP_MODES = frozenset({"I", "F", "I;16", "I;16L", "I;16B", "I;16N"})
_WHITES = (1.0, 255.0, 4095.0, 65535.0)


def decode_jpeg(image: Image.Image) -> float:
    """Decode as much of a JPEG as possible; return the share of decoded rows, 1.0 for all.

    A truncated progressive JPEG is an error, because all its rows are incomplete.
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
    # Missing rows are filled with medium grey, which is 128, or 127 if inverted.
    rows = np.asarray(image).reshape(image.height, -1)
    decoded = np.flatnonzero(((rows < 127) | (rows > 128)).any(axis=1))
    return (int(decoded[-1]) + 1) / image.height if len(decoded) else 0.0


def decode_large_webp(path: Path, size: tuple[int, int]) -> Image.Image:
    """Decode a WebP without its alpha channel, and scale it to this size.

    Pillow needs 16 bytes for each pixel, OpenCV 3.
    """
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.fromfile(path, np.uint8), flags)
    if image is None:
        raise ValueError("it cannot be decoded")
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return Image.fromarray(cv2.cvtColor(small, cv2.COLOR_BGR2RGB))


def shrink(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Convert an image to grey or RGB of 8 bits on white, scaled down to this size."""
    step = max(1, min(image.width // size[0], image.height // size[1]))
    mode = "L" if image.mode in _GREY_MODES | _DEEP_MODES else "RGB"
    ready = step == 1 and image.mode == mode and not image.has_transparency_data
    small = image if ready else _reduce(image, mode, step)
    return small if small.size == size else small.resize(size, Image.Resampling.BICUBIC)


def _reduce(image: Image.Image, mode: str, step: int) -> Image.Image:
    """Flatten an image and average each step x step pixels.

    It is processed in bands, because a second copy of a large image would need too much memory.
    """
    white = _guess_white(image)
    rows = step * max(1, _BAND_PIXELS // (image.width * step))
    small = Image.new(mode, (-(-image.width // step), -(-image.height // step)))
    for top in range(0, image.height, rows):
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        small.paste(_flatten(band, white).reduce(step), (0, top // step))
    return small


def _guess_white(image: Image.Image) -> float:
    """Guess the value of white in deep modes: 12 bits are often stored in 16."""
    if image.mode not in _DEEP_MODES:
        return 255.0
    brightest = float(np.max(image.getextrema()))
    return next((white for white in _WHITES if brightest <= white), brightest)


def _flatten(band: Image.Image, white_level: float) -> Image.Image:
    if band.mode in _DEEP_MODES:
        values = np.asarray(band, dtype=np.float32) * (255.0 / white_level)
        return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))
    grey = band.mode in _GREY_MODES
    if band.has_transparency_data:
        return _paste_on_white(band.convert("LA" if grey else "RGBA"))
    if band.mode == "LAB":
        return band.getchannel("L")
    return band.convert("L" if grey else "RGB")


def _paste_on_white(band: Image.Image) -> Image.Image:
    paper = Image.new("L" if band.mode == "LA" else "RGB", band.size, "white")
    paper.paste(band.convert(paper.mode), mask=band.getchannel("A"))
    return paper


def drop_redundant_colours(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return one channel if all three are equal."""
    if pixels.ndim == 2:
        return pixels
    # A few pixels suffice to detect most coloured pages.
    if _is_grey(pixels[::61, ::61]) and _is_grey(pixels):
        return np.ascontiguousarray(pixels[:, :, 0])
    return pixels


def _is_grey(pixels: NDArray[np.uint8]) -> bool:
    red, green, blue = pixels[:, :, 0], pixels[:, :, 1], pixels[:, :, 2]
    return bool(np.array_equal(red, green) and np.array_equal(green, blue))


def is_blank(pixels: NDArray[np.uint8]) -> bool:
    """Tell whether all pixels have the same colour."""
    return bool((pixels == pixels[0, 0]).all())


def resize(pixels: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Scale an image to exactly this size."""
    if pixels.shape[:2] == (height, width):
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))


_ROTATIONS = {
    90: cv2.ROTATE_90_CLOCKWISE,
    180: cv2.ROTATE_180,
    270: cv2.ROTATE_90_COUNTERCLOCKWISE,
}


def rotate_quarter(pixels: NDArray[np.uint8], degrees: int) -> NDArray[np.uint8]:
    """Rotate an image clockwise by 0, 90, 180 or 270 degrees."""
    return np.asarray(cv2.rotate(pixels, _ROTATIONS[degrees]), np.uint8) if degrees else pixels


def deskew(pixels: NDArray[np.uint8], skew: float) -> NDArray[np.uint8]:
    """Rotate an image counterclockwise by `skew` degrees, so that its lines become level.

    Nothing is cut off; new pixels get the colour of the paper.
    """
    if not skew:
        return pixels
    size = _compute_rotated_size(pixels.shape[1], pixels.shape[0], skew)
    matrix = make_inverse_transform(0, skew, size, (pixels.shape[1], pixels.shape[0]))
    # Our coordinates refer to the corners of pixels, those of OpenCV to their centres.
    matrix[:, 2] += matrix[:, :2] @ (0.5, 0.5) - 0.5
    paper = np.atleast_1d(np.median(pixels[::16, ::16], axis=(0, 1))).tolist()
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(pixels, matrix, size, flags=flags, borderValue=paper), np.uint8
    )


def make_inverse_transform(
    rotation: int, skew: float, size: tuple[int, int], original: tuple[int, int]
) -> NDArray[np.float64]:
    """Return the matrix from coordinates on a rotated image to those on the original.

    size and original are width and height after and before rotation around the centre.
    """
    angle = np.deg2rad(skew - rotation)
    linear = np.array(((np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))))
    offset = np.array(original) / 2 - linear @ (np.array(size) / 2)
    return np.column_stack((linear, offset))


def _compute_rotated_size(width: int, height: int, skew: float) -> tuple[int, int]:
    along, across = np.cos(np.deg2rad(skew)), abs(np.sin(np.deg2rad(skew)))
    return (
        int(np.ceil(width * along + height * across)),
        int(np.ceil(height * along + width * across)),
    )


# Between 80 and 95, OCR results are the same, and files double in size;
# see docs/reference/volume-stages.md.
_QUALITY = 85


def encode_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """Encode grey or RGB pixels as JPEG."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def decode_jpeg_bytes(data: bytes, name: str) -> NDArray[np.uint8]:
    """Decode a JPEG to grey or RGB; name identifies it in messages."""
    with (
        limits.translate_parser_errors(name),
        Image.open(io.BytesIO(data), formats=("JPEG",)) as image,
    ):
        return np.asarray(image)


def encode_mask(mask: NDArray[np.uint8]) -> bytes:
    """Encode a mask of 0 and 1 as PNG with one bit per pixel."""
    out = io.BytesIO()
    Image.fromarray(mask * np.uint8(255)).convert("1").save(out, "PNG")
    return out.getvalue()
