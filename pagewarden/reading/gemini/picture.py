"""The page image as it travels."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from pagewarden.reading import engine

MIME_TYPE = "image/jpeg"
LONG_SIDE = 3072  # pixels; the service looks at no more
QUALITY = 92


def encode(image: engine.PageImage) -> bytes:
    """Write the page as a JPEG, scaled down where it is larger than the service can use."""
    picture = Image.fromarray(image.pixels)
    picture.thumbnail((LONG_SIDE, LONG_SIDE), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
