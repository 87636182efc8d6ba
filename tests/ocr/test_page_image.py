"""Page images for people."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from pagewarden import errors
from pagewarden.ocr import page_image, reader
from tests.ocr import samples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def reading() -> AsyncIterator[reader.Reader]:
    """A reader that draws pages."""
    async with reader.Reader(engine="null", processes=1) as made:
        yield made


def _shown(drawn: bytes) -> Image.Image:
    return Image.open(io.BytesIO(drawn), formats=("JPEG",))


async def test_a_page_of_a_pdf_is_drawn_as_it_is_read(
    tmp_path: Path, reading: reader.Reader
) -> None:
    """It has the shape that its lines are placed on, turned as the PDF says."""
    source = tmp_path / "letter.pdf"
    source.write_bytes(samples.make_text_pdf(samples.PROSE, samples.PROSE, rotate=90))
    pages = [page async for page in reading.read(source)]
    shown = _shown(await page_image.draw_page(reading, source, "letter.pdf", 2))
    assert shown.width > shown.height
    assert shown.width / shown.height == pytest.approx(pages[1].width / pages[1].height, rel=0.01)


async def test_a_photo_is_drawn_upright_and_small(tmp_path: Path, reading: reader.Reader) -> None:
    """EXIF says which way is up; four megapixels are enough for a screen."""
    source = tmp_path / "photo.jpg"
    photo = Image.new("RGB", (4000, 3000), "white")
    photo.paste("red", (0, 0, 4000, 300))
    exif = photo.getexif()
    exif[0x0112] = 6
    photo.save(source, exif=exif)
    shown = _shown(await page_image.draw_page(reading, source, "photo.jpg", 1))
    assert shown.width < shown.height
    assert shown.width * shown.height <= 4_000_000
    red = shown.convert("RGB").getpixel((shown.width - 10, shown.height // 2))
    assert isinstance(red, tuple)
    assert red[0] > 200
    assert red[1] < 100


@pytest.mark.parametrize(
    ("content", "number", "error"),
    [
        (samples.make_text_pdf(samples.PROSE), 2, errors.UnreadableFile),
        (samples.make_text_pdf(samples.PROSE), 0, errors.UnreadableFile),
        (b"%PDF-1.7\nnothing", 1, errors.DamagedFile),
        (b"PK\x03\x04 no page at all", 1, errors.UnsupportedFile),
        (b"", 1, errors.EmptyFile),
    ],
    ids=["no such page", "page zero", "broken", "of another kind", "empty"],
)
async def test_error_explains_why_a_page_cannot_be_drawn(
    tmp_path: Path,
    reading: reader.Reader,
    content: bytes,
    number: int,
    error: type[errors.PagewardenError],
) -> None:
    """The message names the file; other pages can still be drawn."""
    source = tmp_path / "file"
    source.write_bytes(content)
    with pytest.raises(error, match="scan"):
        await page_image.draw_page(reading, source, "scan", number)
