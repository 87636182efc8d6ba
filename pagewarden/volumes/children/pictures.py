"""Pixels from and to the files that stages hand on."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from pagewarden.reading import trouble

if TYPE_CHECKING:
    from numpy.typing import NDArray

# From 80 to 95 the text that is read stays the same, and files double; see docs/volume-stages.md.
_QUALITY = 85


def to_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """Encode grey or RGB."""
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "JPEG", quality=_QUALITY)
    return written.getvalue()


def from_jpeg(data: bytes, name: str) -> NDArray[np.uint8]:
    """Decode to grey or RGB; name stands for it in messages."""
    with trouble.parsing(name), Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
        return np.asarray(image)


def to_png(mask: NDArray[np.uint8]) -> bytes:
    """Encode a mask of 0 and 1 in one bit for each pixel."""
    written = io.BytesIO()
    Image.fromarray(mask * np.uint8(255)).convert("1").save(written, "PNG")
    return written.getvalue()
