"""Draw documents for tests; the grey of a page selects how the fake engine fails."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from pagewarden.ocr.engines import fakes

if TYPE_CHECKING:
    from collections.abc import Sequence

WHITE = "white"
SIZE = (200, 300)


def document(*failures: str, kind: str = "TIFF", size: tuple[int, int] = SIZE) -> bytes:
    """Draw a page for each failure of `fakes.FAILURES`; "white" is a page without failure."""
    shades = fakes.SHADES | {WHITE: 255}
    return _save([Image.new("L", size, shades[failure]) for failure in failures], kind)


def numbered(count: int) -> bytes:
    """Draw distinguishable pages: each is one pixel wider than the one before."""
    width, height = SIZE
    return _save([Image.new("L", (width + n, height), 255) for n in range(count)], "TIFF")


def letter() -> bytes:
    """Draw a page with enough text to detect its orientation."""
    page = Image.new("L", (1240, 1754), 255)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=28)
    for line in range(120, 1640, 45):
        draw.text((120, line), "The quick brown fox jumps over the lazy dog.", fill=0, font=font)
    return _save([page], "PNG")


def _save(pages: Sequence[Image.Image], kind: str) -> bytes:
    buffer = io.BytesIO()
    pages[0].save(buffer, kind, save_all=True, append_images=pages[1:])
    return buffer.getvalue()
