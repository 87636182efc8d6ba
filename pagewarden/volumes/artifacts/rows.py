"""The rows of the Parquet files: first the columns that were agreed on, then those we add.

Places are pixels, origin top left: of the rotated image, unless said otherwise. Confidence is 0 to
1. A row that is not ok says at which stage what went wrong with its page, and has nothing else; in
the files of later stages it is repeated, so each file knows all pages that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

Contour = Sequence[Sequence[int]]
"""Points of an outline, each as x and y."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a page failed: at which stage, with which error of pagewarden.errors."""

    stage: str
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the bucket: its key, and the SHA-256 of its bytes."""

    key: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the rows of every file have."""

    image_name: str
    ok: bool = True
    error_stage: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    confidence: float | None = None
    model_version: str = ""

    @property
    def trouble(self) -> Trouble | None:
        """Say why the page failed; None if it did not."""
        if self.ok:
            return None
        return Trouble(self.error_stage or "", self.error_type or "", self.error_message or "")

    @property
    def image(self) -> Image | None:
        """Name the image that belongs to the row, where there is one."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedPage(Row):
    """A page of line_detection.parquet.

    page_angle: degrees by which the original was turned clockwise.
    rot_mask: the cores of lines on the rotated image, as a PNG of the size the model works at.
    tps_ratio: how far long lines depart from straight, in heights of their cores; null where nobody
        looked.
    tps_points: rows of x, y and by how many pixels further down the same place was before
        dewarping; null without dewarping.
    width, height, dpi: of the original as a person sees it.
    scaled_width, scaled_height: of what was worked on; less, if the original is enormous.
    """

    rotated_image_path: str | None = None
    rot_mask: bytes | None = None
    page_angle: float | None = None
    dewarping_applied: bool | None = None
    tps_ratio: float | None = None
    filtered_contours: Sequence[Contour] = ()
    contour_confidences: Sequence[float] = ()
    tps_points: Sequence[Sequence[float]] | None = None
    width: int | None = None
    height: int | None = None
    dpi: float | None = None
    scaled_width: int | None = None
    scaled_height: int | None = None
    rotated_width: int | None = None
    rotated_height: int | None = None
    rotated_image_sha256: str | None = None
    source_path: str = ""
    source_version: str = ""

    @property
    def image(self) -> Image | None:
        """Name the rotated image."""
        key, sha256 = self.rotated_image_path, self.rotated_image_sha256
        return Image(key, sha256) if key and sha256 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineImage(Row):
    """A line of line_images.parquet; line_index counts from 0 in reading order.

    bbox, center, contour: of the core of the line.
    corners: of what was cut out, clockwise from where the text begins.
    block: counts the paragraphs and columns of the page.
    """

    line_index: int | None = None
    line_image_path: str | None = None
    line_guid: str | None = None
    bbox_x: int | None = None
    bbox_y: int | None = None
    bbox_w: int | None = None
    bbox_h: int | None = None
    center_x: int | None = None
    center_y: int | None = None
    contour: Contour | None = None
    corners: Sequence[Sequence[float]] | None = None
    block: int | None = None
    line_image_sha256: str | None = None

    @property
    def image(self) -> Image | None:
        """Name the picture of the line."""
        key, sha256 = self.line_image_path, self.line_image_sha256
        return Image(key, sha256) if key and sha256 else None


class WordInLine(TypedDict):
    """A word between two places along its line, 0 to 1."""

    text: str
    left: float
    right: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineText(Row):
    """A line of ocr_results.parquet; text is empty where there is nothing to read."""

    line_index: int | None = None
    line_guid: str | None = None
    text: str | None = None
    encoding: str | None = None
    words: Sequence[WordInLine] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedText(LineText):
    """A line of combined.parquet: source is the key of the file it was taken from.

    agreeing: how many files have the same text.
    """

    source: str | None = None
    agreeing: int | None = None
