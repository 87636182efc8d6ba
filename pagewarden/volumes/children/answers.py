"""What children say of pages, as both sides know it; it loads nothing that only children need."""

from __future__ import annotations

from dataclasses import dataclass

import pydantic


@dataclass(frozen=True, slots=True)
class Detected:
    """A page that was set upright; see rows.DetectedPage for what each of it is.

    Beside it travel the rotated image as JPEG and the mask as PNG.
    """

    page_angle: float
    tps_ratio: float | None
    tps_points: list[list[float]] | None
    contours: list[list[list[int]]]
    confidences: list[float]
    width: int
    height: int
    dpi: float
    rotated_width: int
    rotated_height: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was cut out, see rows.LineImage; beside it travels its picture as JPEG."""

    contour: list[list[int]]
    confidence: float
    corners: list[list[float]]
    block: int


@dataclass(frozen=True, slots=True)
class Text:
    """What was read of a line; words are text, left, right (0 to 1) and confidence."""

    text: str
    confidence: float
    words: list[tuple[str, float, float, float]]


DETECTED = pydantic.TypeAdapter(Detected)
LINES = pydantic.TypeAdapter(list[Line])
TEXTS = pydantic.TypeAdapter(list[Text])
