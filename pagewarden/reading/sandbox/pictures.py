"""Draw a page of a foreign file: for children only."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from PIL import Image

from pagewarden import errors
from pagewarden.reading import opening

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.reading import limits

_QUALITY = 80


def draw(path: Path, name: str, number: int, bounds: limits.Limits) -> bytes:
    """Draw a page as JPEG."""
    document = opening.open_document(path, bounds, name=name)
    if not 1 <= number <= document.page_count:
        raise errors.UnreadableFile(f"{name}: it has no page {number}. Choose another one.")
    image = document.page(number).render()
    written = io.BytesIO()
    Image.fromarray(image.pixels).save(written, "JPEG", quality=_QUALITY)
    return written.getvalue()
