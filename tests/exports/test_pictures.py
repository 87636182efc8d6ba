"""Image files become searchable PDFs that show the same picture."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pikepdf
import pillow_heif
import pypdfium2  # type: ignore[import-untyped, unused-ignore]  # it has no types
import pytest
from PIL import Image, ImageOps

from pagewarden.exports.pdf import searchable
from pagewarden.ocr import pages
from tests.exports import readers, samples

if TYPE_CHECKING:
    from pathlib import Path

SIZE = (120, 150)
ORIENTATION = 0x0112


def test_a_jpeg_is_embedded_as_it_is(tmp_path: Path) -> None:
    """Byte for byte, on a page as large as the paper was."""
    (tmp_path / "photo.jpg").write_bytes(samples.jpeg())
    page = samples.page(samples.line("Hello world"))
    searchable.write_searchable_pdf(tmp_path / "photo.jpg", [page], tmp_path / "photo.pdf")
    with pikepdf.open(tmp_path / "photo.pdf") as document:
        (only,) = document.pages
        assert only.obj.Resources.XObject.Scan.read_raw_bytes() == samples.jpeg()
        assert [float(edge) for edge in only.obj.MediaBox] == [0, 0, 576, 720]
    assert readers.pdfium_text(tmp_path / "photo.pdf") == ["Hello world"]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_a_picture_is_shown_as_its_orientation_says(
    kind: str, orientation: int, tmp_path: Path
) -> None:
    """All eight of them, mirrored ones too, and the words stand where they are seen."""
    path = tmp_path / "photo"
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    samples.picture(size=SIZE).save(path, kind, exif=exif, **options)
    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image))
    height, width = upright.shape[:2]
    word = pages.Word("Hello", pages.Box(10, 20, 70, 40).quad(), 0.9)
    page = pages.ReadPage(1, width, height, 72, pages.TextSource.OCR, (samples.line_of(word),))
    searchable.write_searchable_pdf(path, [page], tmp_path / "photo.pdf")
    assert np.array_equal(_shown(tmp_path / "photo.pdf"), upright)
    (found,) = readers.pdfium_words(tmp_path / "photo.pdf", 1, width, height)
    assert found.text == "Hello"
    assert found.box == pytest.approx((10, 20, 70, 40), abs=1)


@pytest.mark.parametrize(
    ("kind", "mode", "packing"),
    [
        ("PNG", "1", "/FlateDecode"),
        ("PNG", "L", "/FlateDecode"),
        ("PNG", "P", "/FlateDecode"),
        ("PNG", "RGB", "/FlateDecode"),
        ("TIFF", "1", "/CCITTFaxDecode"),
        ("TIFF", "L", "/FlateDecode"),
        ("TIFF", "P", "/FlateDecode"),
        ("TIFF", "RGB", "/FlateDecode"),
        ("BMP", "RGB", "/FlateDecode"),
        ("GIF", "P", "/FlateDecode"),
        ("WEBP", "RGB", "/FlateDecode"),
        ("AVIF", "RGB", "/FlateDecode"),
        ("HEIF", "RGB", "/FlateDecode"),
    ],
)
def test_a_picture_is_shown_without_loss(
    kind: str, mode: str, packing: str, tmp_path: Path
) -> None:
    """Every pixel of every kind of image is there."""
    pillow_heif.register_heif_opener()
    path = _saved(samples.picture(mode, SIZE), kind, tmp_path)
    with Image.open(path) as image:
        expected = np.asarray(image.convert("RGB"))
    assert np.array_equal(_shown(_searchable(path)), expected)
    with pikepdf.open(_searchable(path)) as document:
        assert document.pages[0].obj.Resources.XObject.Scan.Filter == packing


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_what_is_transparent_lies_on_white_paper(kind: str, tmp_path: Path) -> None:
    """As the reader saw it."""
    image = samples.picture("RGBA", SIZE)
    image.putalpha(Image.linear_gradient("L").resize(SIZE))
    path = _saved(image, kind, tmp_path)
    with Image.open(path) as saved:
        paper = Image.new("RGBA", SIZE, "white")
        expected = np.asarray(Image.alpha_composite(paper, saved.convert("RGBA")).convert("RGB"))
    difference = np.abs(_shown(_searchable(path)).astype(int) - expected)
    assert difference.max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_stay_sixteen(kind: str, tmp_path: Path) -> None:
    """A grey image of 16 bits is not cut down to 8."""
    values = np.arange(SIZE[0] * SIZE[1], dtype=np.uint16).reshape(SIZE[::-1]) * 3
    path = _saved(Image.fromarray(values), kind, tmp_path)
    with pikepdf.open(_searchable(path)) as document:
        stream = document.pages[0].obj.Resources.XObject.Scan
        assert stream.BitsPerComponent == 16
        assert stream.read_bytes() == values.astype(">u2").tobytes()


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_a_picture_for_the_printing_press_is_not_a_negative(kind: str, tmp_path: Path) -> None:
    """CMYK is shown with white as white and dark as dark."""
    path = _saved(samples.picture("CMYK", SIZE), kind, tmp_path)
    shown = _shown(_searchable(path)).astype(int)
    expected = np.asarray(samples.picture("RGB", SIZE)).astype(int)
    assert np.abs(shown - expected).mean() < 12


def test_an_interlaced_png_is_packed_anew(tmp_path: Path) -> None:
    """A PDF cannot show pixels that come out of order."""
    header = struct.pack(">2I5B", 2, 1, 8, 0, 0, 0, 1)
    rows = zlib.compress(b"\0\x10" + b"\0\xf0")  # a pass of the first pixel, one of the second
    path = tmp_path / "interlaced.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows))
    with pikepdf.open(_searchable(path)) as document:
        assert document.pages[0].obj.Resources.XObject.Scan.read_bytes() == b"\x10\xf0"


def test_every_page_of_a_tiff_is_a_page(tmp_path: Path) -> None:
    """Small copies of a page are left out, as the reader does."""
    frames = [samples.picture("L", SIZE), Image.new("L", (12, 15), 128), Image.new("L", SIZE, 200)]
    path = tmp_path / "fax.tif"
    frames[1].encoderinfo = {"tiffinfo": {254: 1}}
    frames[0].save(path, "TIFF", save_all=True, append_images=frames[1:])
    read = [
        pages.ReadPage(number, *SIZE, 72, pages.TextSource.OCR, (samples.line(f"Page{number}"),))
        for number in (1, 2)
    ]
    searchable.write_searchable_pdf(path, read, tmp_path / "fax.pdf")
    assert np.array_equal(_shown(tmp_path / "fax.pdf", 0)[..., 0], np.asarray(frames[0]))
    assert np.array_equal(_shown(tmp_path / "fax.pdf", 1)[..., 0], np.asarray(frames[2]))


def test_a_failed_page_is_shown_if_it_can_be(tmp_path: Path) -> None:
    """An engine that failed takes no page away; a frame that is broken leaves a blank one."""
    path = _saved(samples.picture("RGB", SIZE), "TIFF", tmp_path)
    read = [samples.failed(1), samples.failed(2)]
    searchable.write_searchable_pdf(path, read, tmp_path / "target.pdf")
    with pikepdf.open(tmp_path / "target.pdf") as document:
        shown, blank = document.pages
        assert "/XObject" in shown.obj.Resources
        assert [float(edge) for edge in blank.obj.MediaBox] == [0, 0, 595, 842]


def test_a_colour_profile_is_kept(tmp_path: Path) -> None:
    """The colours of a photograph are those of its camera."""
    profile = b"\0" * 16 + b"RGB " + b"\0" * 108
    file = io.BytesIO()
    samples.picture(size=SIZE).save(file, "JPEG", icc_profile=profile)
    (tmp_path / "photo.jpg").write_bytes(file.getvalue())
    with pikepdf.open(_searchable(tmp_path / "photo.jpg")) as document:
        space = document.pages[0].obj.Resources.XObject.Scan.ColorSpace
        assert space[0] == "/ICCBased"
        assert space[1].read_bytes() == profile


def test_a_huge_sheet_fits_a_pdf(tmp_path: Path) -> None:
    """No page is larger than a PDF can have."""
    path = _saved(samples.picture("L", SIZE), "PNG", tmp_path)
    page = pages.ReadPage(1, 60_000, 75_000, 72, pages.TextSource.OCR, (samples.line("x"),))
    searchable.write_searchable_pdf(path, [page], tmp_path / "target.pdf")
    with pikepdf.open(tmp_path / "target.pdf") as document:
        assert [float(edge) for edge in document.pages[0].obj.MediaBox] == [0, 0, 11520, 14400]


def _chunk(tag: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def _saved(image: Image.Image, kind: str, folder: Path) -> Path:
    path = folder / f"picture.{kind.lower()}"
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
    image.save(path, kind, **options)
    return path


def _searchable(path: Path) -> Path:
    target = path.with_suffix(".pdf")
    page = pages.ReadPage(1, *SIZE, 72, pages.TextSource.OCR, (samples.line("Hello"),))
    searchable.write_searchable_pdf(path, [page], target)
    return target


def _shown(path: Path, number: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with pypdfium2.PdfDocument(path) as document:
        return np.asarray(document[number].render(scale=1).to_pil().convert("RGB"))
