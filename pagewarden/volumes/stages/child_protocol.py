"""Messages between a stage and its children: facts as JSON, followed by the files they describe.

Both sides import this module, so it loads nothing heavy. The host does not trust a child: a message
that is malformed counts as the death of the child.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import pydantic

from pagewarden.ocr.sandbox import protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

MAX_BYTES = 256 << 20

# No page has more pixels on a side.
_MAX_COORDINATE = 1_000_000

Pixel = Annotated[int, pydantic.Field(ge=-_MAX_COORDINATE, le=_MAX_COORDINATE)]
Real = Annotated[float, pydantic.Field(allow_inf_nan=False)]
Contour = list[tuple[Pixel, Pixel]]
Corner = tuple[Real, Real]


@dataclass(frozen=True, slots=True)
class DetectedLines:
    """An upright page with its lines, see rows.DetectedPage.

    Its files are the rotated image as JPEG and the mask as PNG.
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
    """An extracted line, see rows.LineImage; its file is the line image as JPEG."""

    contour: Contour
    confidence: Real
    corners: tuple[Corner, Corner, Corner, Corner]
    block: Pixel


@dataclass(frozen=True, slots=True)
class RecognisedText:
    """The text of a line; words are text, left, right (0 to 1) and confidence."""

    text: str
    confidence: Real
    words: list[tuple[str, Real, Real, Real]]


DETECTED = pydantic.TypeAdapter(DetectedLines)
LINES = pydantic.TypeAdapter(list[Line])
TEXTS = pydantic.TypeAdapter(list[RecognisedText])


def pack(
    kind: pydantic.TypeAdapter[T], facts: T, files: Sequence[bytes] = ()
) -> tuple[protocol.Message, bytes]:
    """Serialise facts and files."""
    parts = [kind.dump_json(facts), *files]
    return {"sizes": [len(part) for part in parts]}, b"".join(parts)


def unpack(
    kind: pydantic.TypeAdapter[T], message: protocol.Message, blob: bytes
) -> tuple[T, list[bytes]]:
    """Parse and validate facts and files."""
    facts, *files = split(message.get("sizes"), blob)
    try:
        return kind.validate_json(facts), files
    except ValueError as exc:
        raise protocol.ProtocolError("invalid facts") from exc


def split(sizes: object, blob: bytes) -> list[bytes]:
    """Split bytes into parts of these sizes."""
    if not isinstance(sizes, list) or not sizes:
        raise protocol.ProtocolError("no sizes")
    if not all(isinstance(size, int) and size >= 0 for size in sizes) or sum(sizes) != len(blob):
        raise protocol.ProtocolError("sizes do not match the bytes")
    parts, start = [], 0
    for size in sizes:
        parts.append(blob[start : start + size])
        start += size
    return parts
