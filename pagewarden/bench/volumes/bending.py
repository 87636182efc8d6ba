"""Pages as cameras see them in thick books: curved towards the spine, and at a slant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image, ImageOps

from pagewarden.reading import turning

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Bend:
    """How a page is bent: by this share of its width, and at a slant of so many degrees."""

    name: str
    depth: float = 0.0
    skew: float = 0.0


BENDS = (
    Bend("as it is"),
    Bend("skewed by 4°", skew=4.0),
    Bend("slightly curved", depth=0.01),
    Bend("curved", depth=0.02),
    Bend("curved, skewed by 4°", depth=0.02, skew=4.0),
    Bend("strongly curved", depth=0.035),
)


def write(source: Path, target: Path, bend: Bend) -> None:
    """Bend a page and save it without loss."""
    with Image.open(source) as image:
        upright = ImageOps.exif_transpose(image)
        pixels = np.asarray(upright if upright.mode in {"L", "RGB"} else upright.convert("L"))
    Image.fromarray(bent(pixels, bend)).save(target, compress_level=1)


def bent(pixels: NDArray[np.uint8], bend: Bend) -> NDArray[np.uint8]:
    """Bend a page: most near its right edge, and less towards its foot."""
    height, width = pixels.shape[:2]
    curved = pixels
    if bend.depth:
        x = np.linspace(0, 1, width, dtype=np.float32)[None, :]
        y = np.linspace(0, 1, height, dtype=np.float32)[:, None]
        # A sheet that rises from the left and falls steeply into the spine on the right.
        shape = np.sin(np.pi * x**1.6)
        down = np.float32(bend.depth * width) * shape * (1 - np.float32(0.5) * y)
        rows = np.arange(height, dtype=np.float32)[:, None] + down
        columns = np.broadcast_to(np.arange(width, dtype=np.float32)[None, :], rows.shape)
        curved = np.asarray(
            cv2.remap(pixels, columns, rows, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        )
    return turning.level(curved, -bend.skew)
