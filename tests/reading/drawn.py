"""Documents that tests draw: pages of one grey each, which says how the fake engine fails."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden.reading import fakes

if TYPE_CHECKING:
    from collections.abc import Sequence

WHITE = "white"
SIZE = (200, 300)


def document(*ways: str, kind: str = "TIFF", size: tuple[int, int] = SIZE) -> bytes:
    """Draw a page for each way in which reading is to end; white pages go well."""
    pages = [Image.new("L", size, fakes.SHADES.get(way, 255)) for way in ways]
    return _saved(pages, kind)


def numbered(count: int) -> bytes:
    """Draw pages that can be told apart: each is one pixel wider than the one before."""
    width, height = SIZE
    return _saved([Image.new("L", (width + n, height), 255) for n in range(count)], "TIFF")


def letter() -> bytes:
    """Draw a page of text large enough to be set upright."""
    page = Image.new("L", (1240, 1754), 255)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=28)
    for line in range(120, 1640, 45):
        draw.text((120, line), "The quick brown fox jumps over the lazy dog.", fill=0, font=font)
    return _saved([page], "PNG")


def _saved(pages: Sequence[Image.Image], kind: str) -> bytes:
    buffer = io.BytesIO()
    pages[0].save(buffer, kind, save_all=True, append_images=pages[1:])
    return buffer.getvalue()
