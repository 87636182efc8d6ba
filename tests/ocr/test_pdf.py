from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pikepdf
import pytest
from PIL import Image

from pagewarden import errors
from pagewarden.ocr import limits, pages
from pagewarden.ocr.document import Document, open_document
from tests.ocr import samples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LIMITS = limits.Limits()


@contextlib.contextmanager
def _opened(folder: Path, data: bytes, bounds: limits.Limits = _LIMITS) -> Iterator[Document]:
    path = folder / "a.pdf"
    path.write_bytes(data)
    with contextlib.closing(open_document(path, bounds)) as document:
        yield document


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("crop", [None, (36, 200, 600, 780)])
def test_words_have_their_visible_positions(
    tmp_path: Path, rotate: int, crop: tuple[int, int, int, int] | None
) -> None:
    """For any rotation and crop, each word is within 3 points, first corner first."""
    with _opened(
        tmp_path, samples.make_text_pdf(samples.PROSE, rotate=rotate, crop=crop)
    ) as document:
        page = document.open_page(1)
        lines = page.read_text_layer()

    assert lines is not None
    assert list(samples.PROSE) == [line.text for line in lines]
    words = [word for line in lines for word in line.words]
    left, bottom, right, top = crop or (0, 0, *samples.LETTER)
    scale = page.dpi / 72
    for word, placed in zip(words, samples.placed_words(samples.PROSE), strict=True):
        corner = (placed.left - left, placed.baseline - (samples.LETTER[1] - top))
        seen = _turned(corner, (right - left, top - bottom), rotate)
        # The lower left corner of the text lies a little under the baseline of the word.
        assert np.hypot(*(np.array(word.quad[3]) / scale - seen)) < 3 + 16 * 0.25
        length = np.hypot(*np.subtract(word.quad[1], word.quad[0])) / scale
        assert abs(length - (placed.right - placed.left)) < 3
        assert word.text == placed.text


def test_text_layer_matches_the_page_image(tmp_path: Path) -> None:
    """All the ink of the rendered page is in the boxes of its words, which are tight."""
    with _opened(tmp_path, samples.make_text_pdf(samples.PROSE, rotate=90)) as document:
        page = document.open_page(1)
        picture = page.render()
        lines = page.read_text_layer()

    assert lines is not None
    ink = picture.pixels < 128
    for line in lines:
        for word in line.words:
            left, top, right, bottom = (round(edge) for edge in pages.bounding_box(word.quad))
            assert ink[top:bottom, left:right].mean() > 0.05
            ink[top:bottom, left:right] = False
    assert not ink.any()


def test_scan_is_rendered_in_its_own_resolution(tmp_path: Path) -> None:
    """It is identical pixel by pixel."""
    scan = samples.drawn()
    with _opened(tmp_path, samples.scan_pdf(scan)) as document:
        page = document.open_page(1)
        picture = page.render()

        assert page.read_text_layer() is None
    assert (*scan.size, 150) == (page.width, page.height, round(page.dpi))
    decoded = Image.open(io.BytesIO(samples.as_file(scan, "JPEG", quality=85)))
    assert np.abs(np.asarray(decoded).astype(int) - picture.pixels).max() <= 2


def test_a_scan_within_a_form_keeps_its_resolution(tmp_path: Path) -> None:
    """Programs that stamp pages wrap them into forms, one in the other."""
    with pikepdf.open(io.BytesIO(samples.scan_pdf(samples.drawn()))) as pdf:
        page = pdf.pages[0]
        form = pdf.make_stream(b"q 0.5 0 0 0.5 0 0 cm 612 0 0 792 0 0 cm /Scan Do Q")
        form.Subtype = pikepdf.Name.Form
        form.BBox = pikepdf.Array([0, 0, 612, 792])
        form.Resources = page.Resources
        page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Fx=form))
        page.Contents = pdf.make_stream(b"q 2 0 0 2 0 0 cm /Fx Do Q")
        target = io.BytesIO()
        pdf.save(target)
    with _opened(tmp_path, target.getvalue()) as document:
        assert round(document.open_page(1).dpi) == 150


def test_a_born_digital_page_is_rendered_for_an_engine(tmp_path: Path) -> None:
    """At 300 dpi, in one channel, since it has no colours."""
    with _opened(tmp_path, samples.make_text_pdf(samples.PROSE)) as document:
        picture = document.open_page(1).render()

    assert (picture.dpi, picture.pixels.shape) == (300, (3300, 2550))


def test_huge_page_is_scaled_down(tmp_path: Path) -> None:
    """The limit of working pixels applies to any page size."""
    data = samples.scan_pdf(samples.drawn(), size=(14_000, 9_000))
    bounds = limits.Limits(working_pixels=1_000_000)
    with _opened(tmp_path, data, bounds) as document:
        page = document.open_page(1)
        picture = page.render()

    assert 990_000 < picture.width * picture.height < 1_005_000
    assert (page.width, page.height) == (picture.width, picture.height)


def test_very_long_page_is_scaled_down(tmp_path: Path) -> None:
    """A media box can say anything."""
    with _opened(
        tmp_path, samples.make_text_pdf(["Hello"], box=(0, 0, 595, 2_000_000_000))
    ) as document:
        picture = document.open_page(1).render()

    assert (picture.width, picture.height) == (1, 65_500)


def test_too_large_image_fails_its_page(tmp_path: Path) -> None:
    """It is never decoded, and the other pages are read."""
    data = samples.scan_pdf(samples.drawn(), Image.new("L", (2000, 2000)))
    with _opened(tmp_path, data, limits.Limits(pixels=3_000_000)) as document:
        document.open_page(1).render()
        with pytest.raises(
            errors.DocumentTooLarge, match=r"a\.pdf, page 2: an image of 2,000 x 2,000"
        ):
            document.open_page(2).render()


@pytest.mark.parametrize("how", ["content", "missing", "image"])
def test_broken_page_does_not_affect_others(tmp_path: Path, how: str) -> None:
    """Page 3 is named as damaged, and 1, 2 and 4 are read."""
    whole = samples.make_text_pdf(*[samples.PROSE] * 4)
    if how == "content":
        data = samples.with_broken_page(whole, 3)
    elif how == "missing":
        data = samples.with_odd_page(whole, 3, empty=True)
    else:
        data = _with_garbage_image(samples.scan_pdf(*[samples.drawn()] * 4), 3)

    failed = {}
    with _opened(tmp_path, data) as document:
        for number in range(1, document.page_count + 1):
            try:
                page = document.open_page(number)
                assert page.render().pixels.min() < 100
                assert how == "image" or page.read_text_layer()
            except errors.DamagedFile as error:
                failed[number] = str(error)

    assert list(failed) == [3]
    assert failed[3].startswith("a.pdf, page 3: damaged")


def test_poppler_is_the_fallback_of_pdfium(tmp_path: Path) -> None:
    """If it is not installed, the page is damaged."""
    whole = samples.make_text_pdf(samples.PROSE, samples.PROSE)
    with _opened(tmp_path, samples.with_odd_page(whole, 2)) as document:
        if shutil.which("pdftoppm") is None:
            with pytest.raises(errors.DamagedFile, match="page 2"):
                document.open_page(2)
            return
        page = document.open_page(2)
        picture = page.render()
        reference = document.open_page(1).render()

    assert page.read_text_layer() is None
    assert (page.width, page.height, page.dpi) == (picture.width, picture.height, 300)
    assert np.abs(picture.pixels.astype(int) - reference.pixels).mean() < 3


@pytest.mark.parametrize("content", [b"", b"q Q", b"1 1 1 rg 0 0 600 700 re f"])
def test_empty_page_is_not_damaged(tmp_path: Path, content: bytes) -> None:
    """Blank pages are valid."""
    with pikepdf.open(io.BytesIO(samples.make_text_pdf(samples.PROSE, samples.PROSE))) as pdf:
        pdf.pages[0].Contents = pdf.make_stream(content)
        target = io.BytesIO()
        pdf.save(target)
    with _opened(tmp_path, target.getvalue()) as document:
        page = document.open_page(1)

        assert page.read_text_layer() is None
        assert page.render().pixels.min() == 255


def test_filled_form_fields_are_read(tmp_path: Path) -> None:
    """Even without an appearance stream, in the image and in the text layer."""
    with _opened(tmp_path, samples.form_pdf("Johanna Meier")) as document:
        page = document.open_page(1)
        lines = page.read_text_layer()
        picture = page.render()

    assert lines is not None
    assert [line.text for line in lines] == ["Name of the applicant", "Johanna Meier"]
    left, top, right, bottom = (round(edge) for edge in pages.bounding_box(lines[1].quad))
    assert (picture.pixels[top:bottom, left:right] < 128).any()


def test_pages_can_be_used_in_any_order(tmp_path: Path) -> None:
    """A page is loaded again when another one was opened in between."""
    with _opened(tmp_path, samples.make_text_pdf(["One"], ["Two"], ["Three"])) as document:
        opened = [document.open_page(number) for number in (2, 3, 1)]
        texts = [(page.read_text_layer() or ())[0].text for page in opened]

    assert texts == ["Two", "Three", "One"]


def test_memory_does_not_grow_with_the_pages(tmp_path: Path) -> None:
    """PDFium would keep the bytes of every page it has seen."""
    few, many = (_peak_memory(tmp_path, count) for count in (10, 100))

    assert many < few + 30_000_000


def _peak_memory(folder: Path, count: int) -> int:
    """Read a scan of pages of a megabyte each in a process of its own."""
    path = folder / f"{count}.pdf"
    photo = samples.noise((700, 700))
    path.write_bytes(_scan_of_equal_pages(samples.as_file(photo, "JPEG", quality=95), count))
    program = (
        "import pathlib, re, sys\n"
        "from pagewarden.ocr import document as documents, limits\n"
        "document = documents.open_document(pathlib.Path(sys.argv[1]), limits.Limits())\n"
        "for number in range(1, document.page_count + 1):\n"
        "    document.open_page(number).read_text_layer()\n"
        # Not ru_maxrss, which begins with the size of the process that started this one.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(re.search(r'VmHWM:\\s*(\\d+)', status)[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, check=True, text=True
    )
    return int(done.stdout) * 1024


def _scan_of_equal_pages(jpeg: bytes, count: int) -> bytes:
    pdf = pikepdf.new()
    for _ in range(count):
        image = pikepdf.Stream(pdf, jpeg)
        image.stream_dict = pikepdf.Dictionary(
            Type=pikepdf.Name.XObject,
            Subtype=pikepdf.Name.Image,
            Width=700,
            Height=700,
            ColorSpace=pikepdf.Name.DeviceRGB,
            BitsPerComponent=8,
            Filter=pikepdf.Name.DCTDecode,
        )
        page = pdf.add_blank_page(page_size=(200, 200))
        page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(Scan=image))
        page.Contents = pdf.make_stream(b"200 0 0 200 0 0 cm /Scan Do")
    target = io.BytesIO()
    pdf.save(target)
    return target.getvalue()


def _with_garbage_image(pdf_bytes: bytes, number: int) -> bytes:
    with pikepdf.open(io.BytesIO(pdf_bytes)) as pdf:
        pdf.pages[number - 1].Resources.XObject.Scan.write(
            bytes(3000), filter=pikepdf.Name.DCTDecode
        )
        target = io.BytesIO()
        pdf.save(target)
        return target.getvalue()


def _turned(
    point: tuple[float, float], size: tuple[float, float], rotate: int
) -> tuple[float, float]:
    """Turn a point of a page, origin top left, clockwise with the page."""
    (x, y), (width, height) = point, size
    turned = {0: (x, y), 90: (height - y, x), 180: (width - x, height - y), 270: (y, width - x)}
    return turned[rotate]
