"""Images inside a PDF: JPEG and PNG data as they are, anything else packed without loss."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING

import pikepdf
from PIL import Image, ImageOps, TiffImagePlugin

from pagewarden.exports import streams
from pagewarden.reading import pixels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    """Put the frame that the image stands at into the PDF; say which EXIF turn it still needs."""
    orientation = image.getexif().get(_ORIENTATION, 1)
    if image.format in {"JPEG", "MPO"} and image.mode in {"L", "RGB", "CMYK"}:
        return _jpeg(pdf, image, path.read_bytes()), orientation
    if image.format == "PNG" and _is_plain(data := path.read_bytes()):
        return _png(pdf, data, image), orientation
    return _packed(pdf, image), 1


def _jpeg(pdf: pikepdf.Pdf, image: Image.Image, data: bytes) -> pikepdf.Stream:
    stream = _stream(pdf, image, data, pikepdf.Name.DCTDecode)
    if image.mode == "CMYK":  # as Adobe's programs store it, and Pillow reads it: inverted
        stream.Decode = [1, 0] * 4
    return stream


def _is_plain(png: bytes) -> bool:
    """Tell whether a PDF can show this PNG: rows in order, nothing transparent."""
    colour, interlaced = png[25], png[28]
    tags = {tag for tag, _ in _chunks(png)}
    return colour in {0, 2, 3} and not interlaced and b"tRNS" not in tags


def _png(pdf: pikepdf.Pdf, png: bytes, image: Image.Image) -> pikepdf.Stream:
    """Take the rows as they are filtered and compressed: a PDF understands both."""
    chunks = list(_chunks(png))
    rows = b"".join(data for tag, data in chunks if tag == b"IDAT")
    width, _, depth, colour = struct.unpack(">2I2B", chunks[0][1][:10])
    stream = _stream(pdf, image, rows, pikepdf.Name.FlateDecode)
    channels = 3 if colour == 2 else 1
    stream.BitsPerComponent = depth
    stream.DecodeParms = pikepdf.Dictionary(
        Predictor=15, Colors=channels, BitsPerComponent=depth, Columns=width
    )
    stream.ColorSpace = _space(pdf, image, channels)
    if colour == 3:
        palette = dict(chunks)[b"PLTE"]
        last = len(palette) // 3 - 1
        stream.ColorSpace = pikepdf.Array(
            [pikepdf.Name.Indexed, pikepdf.Name.DeviceRGB, last, pikepdf.String(palette)]
        )
    return stream


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = _PNG_HEAD
    while start + 8 <= len(png):
        length, tag = struct.unpack_from(">I4s", png, start)
        yield tag, png[start + 8 : start + 8 + length]
        start += length + 12


def _packed(pdf: pikepdf.Pdf, image: Image.Image) -> pikepdf.Stream:
    """Decode the frame and pack it anew; what is transparent lies on white paper."""
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode == "1":
        return _fax(pdf, upright)
    if upright.mode == "CMYK":
        return _stream(pdf, upright, zlib.compress(upright.tobytes()), pikepdf.Name.FlateDecode)
    if upright.mode not in _CHANNELS or upright.has_transparency_data:
        upright = pixels.shrink(upright, upright.size)
    file = io.BytesIO()
    upright.save(file, "PNG", icc_profile=None)
    return _png(pdf, file.getvalue(), upright)


def _fax(pdf: pikepdf.Pdf, image: Image.Image) -> pikepdf.Stream:
    """Pack black and white as fax machines do, in a third of the room that PNG takes."""
    file = io.BytesIO()
    image.save(file, "TIFF", compression="group4", strip_size=_ONE_STRIP)
    with TiffImagePlugin.TiffImageFile(io.BytesIO(file.getvalue())) as tiff:
        start, length = (tiff.tag_v2[tag][0] for tag in (_STRIP_OFFSETS, _STRIP_LENGTHS))
        ones_are_white = tiff.tag_v2[_PHOTOMETRIC] == 1
    data = file.getvalue()[start : start + length]
    stream = _stream(pdf, image, data, pikepdf.Name.CCITTFaxDecode)
    stream.BitsPerComponent = 1
    stream.DecodeParms = pikepdf.Dictionary(
        K=-1, Columns=image.width, Rows=image.height, BlackIs1=ones_are_white
    )
    return stream


def _stream(
    pdf: pikepdf.Pdf, image: Image.Image, data: bytes, packing: pikepdf.Name
) -> pikepdf.Stream:
    return pikepdf.Stream(
        pdf,
        data,
        Type=pikepdf.Name.XObject,
        Subtype=pikepdf.Name.Image,
        Width=image.width,
        Height=image.height,
        BitsPerComponent=8,
        ColorSpace=_space(pdf, image, _CHANNELS[image.mode]),
        Filter=packing,
    )


def _space(pdf: pikepdf.Pdf, image: Image.Image, channels: int) -> pikepdf.Object:
    """Use the colour profile of the image, if it has one that fits."""
    profile = image.info.get("icc_profile") or b""
    if profile[16:20] != _PROFILES[channels]:
        return _SPACES[channels]
    stream = streams.compressed(pdf, profile)
    stream.N = channels
    stream.Alternate = _SPACES[channels]
    return pikepdf.Array([pikepdf.Name.ICCBased, stream])
