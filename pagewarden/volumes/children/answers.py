"""What children say of pages, as both sides know it; it loads nothing that only children need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pydantic

_FARTHEST = 1_000_000
"""No page has so many pixels on a side: what a child says is checked."""

Pixel = Annotated[int, pydantic.Field(ge=-_FARTHEST, le=_FARTHEST)]
Real = Annotated[float, pydantic.Field(allow_inf_nan=False)]
Contour = list[tuple[Pixel, Pixel]]
Corner = tuple[Real, Real]


@dataclass(frozen=True, slots=True)
class Detected:
    """A page that was set upright; see rows.DetectedPage for what each of it is.

    Beside it travel the rotated image as JPEG and the mask as PNG.
    """

    page_angle: Real
    tps_ratio: Real | None
    tps_points: list[tuple[Real, Real, Real]] | None
    contours: list[Contour]
    confidences: list[Real]
    width: Pixel
    height: Pixel
    dpi: Real
    scaled_width: Pixel
    scaled_height: Pixel
    rotated_width: Pixel
    rotated_height: Pixel


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was cut out, see rows.LineImage; beside it travels its picture as JPEG."""

    contour: Contour
    confidence: Real
    corners: tuple[Corner, Corner, Corner, Corner]
    block: Pixel


@dataclass(frozen=True, slots=True)
class Text:
    """What was read of a line; words are text, left, right (0 to 1) and confidence."""

    text: str
    confidence: Real
    words: list[tuple[str, Real, Real, Real]]


DETECTED = pydantic.TypeAdapter(Detected)
LINES = pydantic.TypeAdapter(list[Line])
TEXTS = pydantic.TypeAdapter(list[Text])
