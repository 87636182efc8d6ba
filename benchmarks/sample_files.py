"""Small generated documents of every supported type."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pikepdf
import pillow_heif
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Mapping


WORDS = "Every page read, none lost"
SIZE = (160, 120)

_MODES = {
    "grey.png": "L",
    "palette.png": "P",
    "alpha.png": "RGBA",
    "deep.png": "I;16",
    "bilevel.tif": "1",
    "colour.tif": "RGB",
    "cmyk.jpg": "CMYK",
    "colour.jpg": "RGB",
    "colour.bmp": "RGB",
    "palette.gif": "P",
    "colour.webp": "RGB",
    "colour.avif": "RGB",
    "colour.heic": "RGB",
}


def make_all_kinds() -> Mapping[str, bytes]:
    """Make one document of each kind, by name."""
    files = {name: _encode(name, _draw(mode)) for name, mode in _MODES.items()}
    files["pages.tif"] = _encode("pages.tif", _draw("1"), _draw("L"), _draw("RGB"))
    files["scan.pdf"] = _encode("scan.pdf", _draw("L"), _draw("1"))
    files["text.pdf"] = make_text_pdf(3)
    files["compressed.pdf"] = make_text_pdf(3, objects=pikepdf.ObjectStreamMode.generate)
    files["locked.pdf"] = make_text_pdf(1, password="secret")  # noqa: S106  # not a secret
    return files


def make_text_pdf(
    count: int,
    *,
    objects: pikepdf.ObjectStreamMode = pikepdf.ObjectStreamMode.disable,
    password: str = "",
) -> bytes:
    """Make a PDF with a text layer."""
    with pikepdf.new() as pdf:
        font = pdf.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica
            )
        )
        for number in range(1, count + 1):
            page = pdf.add_blank_page(page_size=(300, 200))
            page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=font))
            content = f"BT /F1 14 Tf 20 150 Td ({WORDS}, page {number}) Tj ET"
            page.Contents = pdf.make_stream(content.encode())
        buffer = io.BytesIO()
        encryption = pikepdf.Encryption(owner=password, user=password) if password else None
        pdf.save(buffer, object_stream_mode=objects, encryption=encryption)
        return buffer.getvalue()


def _draw(mode: str) -> Image.Image:
    image = Image.new("L", SIZE, 255)
    ImageDraw.Draw(image).text((5, 50), WORDS, fill=0)
    return image.convert("I").convert(mode) if mode == "I;16" else image.convert(mode)


def _encode(name: str, first: Image.Image, *others: Image.Image) -> bytes:
    pillow_heif.register_heif_opener()
    buffer = io.BytesIO()
    kind = name.rpartition(".")[2]
    kind = {"jpg": "jpeg", "tif": "tiff", "heic": "heif"}.get(kind, kind)
    options = {"save_all": True, "append_images": others} if others else {}
    first.save(buffer, kind, **options)
    return buffer.getvalue()
