from __future__ import annotations

import contextlib
import io
import itertools
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pagewarden import errors
from pagewarden.ocr import limits
from pagewarden.ocr.document import open_document
from tests.ocr import samples

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.ocr.engines import base

_LIMITS = limits.Limits()


def _read(
    folder: Path, data: bytes, bounds: limits.Limits = _LIMITS, number: int = 1
) -> base.PageImage:
    path = folder / "image"
    path.write_bytes(data)
    with contextlib.closing(open_document(path, bounds)) as document:
        page = document.open_page(number)
        picture = page.render()

    assert page.read_text_layer() is None
    assert (page.width, page.height, page.dpi) == (picture.width, picture.height, picture.dpi)
    return picture


def _half_and_half(mode: str = "L", size: tuple[int, int] = (60, 40)) -> Image.Image:
    """Make an image whose left half is black, and the right one white."""
    image = Image.new("L", size, 255)
    ImageDraw.Draw(image).rectangle((0, 0, size[0] // 2 - 1, size[1]), fill=0)
    return image.convert(mode)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("plugin", ["JPEG", "PNG", "TIFF", "WEBP", "AVIF"])
def test_exif_orientation_is_followed(tmp_path: Path, plugin: str, orientation: int) -> None:
    """The page is upright for all orientations."""
    image = Image.new("L", (64, 32), 255)
    ImageDraw.Draw(image).rectangle((0, 0, 15, 15), fill=0)
    exif = Image.Exif()
    exif[0x0112] = orientation

    picture = _read(tmp_path, samples.as_file(image, plugin, exif=exif))

    corner = {
        1: (0, 0), 2: (0, 1), 3: (1, 1), 4: (1, 0), 5: (0, 0), 6: (0, 1), 7: (1, 1), 8: (1, 0),
    }[orientation]  # fmt: skip
    assert ((64, 32) if orientation < 5 else (32, 64)) == (picture.width, picture.height)
    quarter = picture.pixels[corner[0] * picture.height // 2 :, corner[1] * picture.width // 2 :][
        : picture.height // 2, : picture.width // 2
    ]
    assert quarter.mean() < 160
    assert picture.pixels.max() > 240


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "CMYK", "LA", "RGBA", "I;16", "I", "F"])
def test_every_mode_gives_black_and_white(tmp_path: Path, mode: str) -> None:
    """For any depth, palette, CMYK or alpha, black stays black and white stays white."""
    image = _half_and_half("L")
    if mode in {"I;16", "I"}:
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
        image = image if mode == "I;16" else image.convert("I")
    elif mode == "F":
        image = Image.fromarray(np.asarray(image).astype(np.float32) / 255)
    else:
        image = image.convert(mode)

    picture = _read(tmp_path, samples.as_file(image, "TIFF"))

    assert picture.pixels.shape == (40, 60)
    assert picture.pixels[20, 10] == 0
    assert picture.pixels[20, 50] == 255


def test_twelve_bits_stored_in_sixteen_are_not_black(tmp_path: Path) -> None:
    """Scanners for film write 4095 for white."""
    deep = (np.asarray(_half_and_half()) > 0).astype(np.uint16) * 4095

    picture = _read(tmp_path, samples.as_file(Image.fromarray(deep), "TIFF"))

    assert picture.pixels[20, 50] == 255


def test_adobes_inverted_cmyk_is_not_a_negative(tmp_path: Path) -> None:
    """Photoshop stores the inks of a JPEG upside down."""
    picture = _read(tmp_path, samples.as_file(_half_and_half("CMYK"), "JPEG"))

    assert picture.pixels[20, 10] < 60
    assert picture.pixels[20, 50] > 200


@pytest.mark.parametrize("transparency", ["alpha", "palette"])
def test_transparent_pixels_become_white(tmp_path: Path, transparency: str) -> None:
    """Text on a transparent background is not black on black."""
    if transparency == "alpha":
        image = Image.new("RGBA", (60, 40), (0, 0, 0, 0))
        ImageDraw.Draw(image).rectangle((0, 0, 20, 40), fill=(10, 10, 10, 255))
        data = samples.as_file(image, "PNG")
    else:
        image = Image.new("P", (60, 40), 0)
        image.putpalette([0, 0, 0, 10, 10, 10])
        ImageDraw.Draw(image).rectangle((0, 0, 20, 40), fill=1)
        data = samples.as_file(image, "PNG", transparency=0)

    picture = _read(tmp_path, data)

    assert (picture.pixels[20, 10], picture.pixels[20, 50]) == (10, 255)


def test_coloured_images_keep_their_colours(tmp_path: Path) -> None:
    """One coloured pixel among thousands of grey ones makes the page a coloured one."""
    image = Image.new("RGB", (200, 150), (90, 90, 90))
    image.putpixel((37, 41), (90, 91, 90))

    coloured = _read(tmp_path, samples.as_file(image, "PNG"))
    grey = _read(tmp_path, samples.as_file(Image.new("RGB", (200, 150), (90, 90, 90)), "PNG"))

    assert coloured.pixels.shape == (150, 200, 3)
    assert coloured.pixels[41, 37].tolist() == [90, 91, 90]
    assert grey.pixels.shape == (150, 200)


@pytest.mark.parametrize(
    ("plugin", "mode"),
    [
        *itertools.product(["JPEG", "PNG", "TIFF", "WEBP", "HEIF", "BMP"], ["L", "RGB"]),
        *itertools.product(["PNG", "TIFF", "WEBP", "HEIF"], ["RGBA"]),
    ],
)
def test_large_images_are_scaled_down_and_look_the_same(
    tmp_path: Path, plugin: str, mode: str
) -> None:
    """A page above the working size is scaled down, not rejected."""
    image = samples.drawn(size=(425, 550))
    bounds = limits.Limits(working_pixels=25_000)

    data = samples.as_file(image.convert(mode), plugin)

    picture = _read(tmp_path, data, bounds)

    assert 24_000 < picture.width * picture.height <= 25_000
    assert abs(picture.width / picture.height - 425 / 550) < 0.01
    expected = np.asarray(image.resize((picture.width, picture.height), Image.Resampling.BOX))
    seen = picture.pixels.reshape(*expected.shape, -1).mean(axis=2)  # WebP leaves a trace of colour
    assert np.abs(expected - seen).mean() < 6
    assert 0.3 < picture.dpi / _read(tmp_path, data).dpi < 0.35


def test_too_large_photo_is_rejected_before_decoding(tmp_path: Path) -> None:
    """For a header of 3,600 megapixels, the message has size, limit and advice."""
    header = io.BytesIO()
    Image.new("1", (8, 8)).save(header, "PNG")
    data = bytearray(header.getvalue())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")

    with pytest.raises(errors.DocumentTooLarge, match=r"image: 60,000 x 60,000 pixels; .* 250 meg"):
        _read(tmp_path, bytes(data))


def test_too_long_image_is_rejected(tmp_path: Path) -> None:
    """Few pixels in all, but far too many in a row."""
    data = samples.as_file(Image.new("1", (100_000, 20)), "PNG")

    with pytest.raises(errors.DocumentTooLarge, match="100,000 x 20 pixels, but no side"):
        _read(tmp_path, data)


def test_too_large_webp_is_rejected_before_opening(tmp_path: Path) -> None:
    """Its decoder allocates memory for all pixels when it opens the file."""
    side = (60_000 - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + (10).to_bytes(4, "little") + bytes(4) + side + side
    data = b"RIFF" + len(body).to_bytes(4, "little") + body

    with pytest.raises(
        errors.DocumentTooLarge, match="too many pixels; the limit is 250 megapixels"
    ):
        _read(tmp_path, data)


def test_pages_of_a_tiff_are_read_in_any_order(tmp_path: Path) -> None:
    """Each has its own size, mode and orientation; thumbnails are not pages."""
    thumbnail = Image.new("L", (10, 10))
    thumbnail.encoderinfo = {"tiffinfo": {254: 1}}
    pages = [_half_and_half("1"), _half_and_half("RGB", (80, 50)), _half_and_half("L", (30, 90))]
    path = tmp_path / "fax.tif"
    path.write_bytes(
        samples.as_file(
            pages[0], "TIFF", save_all=True, append_images=[pages[1], thumbnail, pages[2]]
        )
    )

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        assert document.page_count == 3
        for number in (3, 1, 2, 2, 1):
            picture = document.open_page(number).render()

            assert pages[number - 1].size == (picture.width, picture.height)
            assert (picture.pixels[20, 5], picture.pixels[20, picture.width - 5]) == (0, 255)


def test_broken_page_of_a_tiff_does_not_affect_others(tmp_path: Path) -> None:
    """The page before it is read, and the message names the page."""
    whole = samples.as_file(
        samples.noise((300, 300)),
        "TIFF",
        save_all=True,
        append_images=[samples.noise((300, 300))],
    )
    path = tmp_path / "fax.tif"
    path.write_bytes(whole[: len(whole) - 200_000])

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        assert document.open_page(1).render().width == 300
        with pytest.raises(errors.DamagedFile, match=r"fax\.tif, page 2: damaged"):
            document.open_page(2).render()


def test_broken_chain_of_tiff_pages_is_located(tmp_path: Path) -> None:
    """The following pages are lost, which is reported."""
    pages = [Image.new("1", (40, 40), 1) for _ in range(3)]
    data = bytearray(samples.as_file(pages[0], "TIFF", save_all=True, append_images=pages[1:]))
    (directory,) = struct.unpack_from("<I", data, 4)
    (entries,) = struct.unpack_from("<H", data, directory)
    struct.pack_into("<I", data, directory + 2 + 12 * entries, len(data) + 100)
    path = tmp_path / "fax.tif"
    path.write_bytes(bytes(data))

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        document.open_page(1).render()
        with pytest.raises(errors.DamagedFile, match=r"fax\.tif, page 2"):
            document.open_page(2).render()


def test_tiff_with_too_many_pages_is_rejected(tmp_path: Path) -> None:
    """They are counted no further than the limit."""
    pages = [Image.new("1", (4, 4)) for _ in range(30)]
    path = tmp_path / "fax.tif"
    path.write_bytes(samples.as_file(pages[0], "TIFF", save_all=True, append_images=pages[1:]))

    with pytest.raises(errors.DocumentTooLarge, match=r"fax\.tif: 21 or more pages .* 20"):
        open_document(path, limits.Limits(pages=20))


@pytest.mark.parametrize("plugin", ["GIF", "PNG", "WEBP"])
def test_first_frame_of_an_animation_is_read(tmp_path: Path, plugin: str) -> None:
    """The other frames are not pages."""
    frames = [_half_and_half("RGB"), Image.new("RGB", (60, 40), "white")]
    data = samples.as_file(frames[0], plugin, save_all=True, append_images=frames[1:])
    path = tmp_path / "moving"
    path.write_bytes(data)

    with contextlib.closing(open_document(path, _LIMITS)) as document:
        picture = document.open_page(1).render()

        assert document.page_count == 1
        assert picture.pixels[20, 10].max() < 20


def test_primary_image_of_a_heic_is_read(tmp_path: Path) -> None:
    """A phone may put others before it."""
    first, second = Image.new("RGB", (64, 64), "white"), Image.new("RGB", (96, 64), "white")
    data = samples.as_file(first, "HEIF", save_all=True, append_images=[second], primary_index=1)

    assert _read(tmp_path, data).width == 96


@pytest.mark.parametrize(("kept", "is_read"), [(0.999, True), (0.5, False), (0.05, False)])
def test_truncated_jpeg_is_read_only_if_almost_complete(
    tmp_path: Path, kept: float, is_read: bool
) -> None:
    """Otherwise text would be lost silently."""
    data = samples.as_file(samples.noise((400, 500)), "JPEG", quality=90)
    cut = data[: int(len(data) * kept)]

    if is_read:
        assert (_read(tmp_path, cut).width, _read(tmp_path, cut).height) == (400, 500)
    else:
        with pytest.raises(errors.DamagedFile, match=r"only \d+% of it can be decoded"):
            _read(tmp_path, cut)


def test_half_a_progressive_jpeg_is_damaged(tmp_path: Path) -> None:
    """It has all rows, but not in full quality."""
    data = samples.as_file(samples.noise((400, 500)), "JPEG", progressive=True)

    with pytest.raises(errors.DamagedFile, match=r"image: damaged \(image file is truncated"):
        _read(tmp_path, data[: len(data) // 2])


@pytest.mark.parametrize("plugin", ["PNG", "WEBP", "HEIF", "GIF", "BMP", "AVIF", "TIFF"])
def test_half_an_image_is_damaged(tmp_path: Path, plugin: str) -> None:
    """In every format the message names the file and what to do."""
    data = samples.as_file(samples.noise((120, 160)), plugin)

    with pytest.raises(errors.DamagedFile, match=r"^image: damaged.* Send it again"):
        _read(tmp_path, data[: len(data) // 2])


@pytest.mark.parametrize(
    ("size", "stated", "expected"),
    [
        ((1240, 1754), 150, 150),
        ((1240, 1754), None, 150),
        ((3000, 4000), 72, 342),
        ((2480, 3508), 2, 300),
        ((2480, 3508), 9600, 300),
        ((200, 100), None, 70),
    ],
)
def test_plausible_resolution_is_taken_from_the_file(
    tmp_path: Path, size: tuple[int, int], stated: int | None, expected: int
) -> None:
    """Otherwise the page is taken to be as large as A4."""
    options: dict[str, Any] = {} if stated is None else {"dpi": (stated, stated)}
    data = samples.as_file(Image.new("1", size, 1), "TIFF", compression="group4", **options)

    assert expected == round(_read(tmp_path, data).dpi)
