"""Rows of the Parquet files: first the columns that are required, then additional ones.

Coordinates are pixels of the rotated image, from its top left corner, unless noted otherwise.
Confidence is 0 to 1. A row that is not ok has only the stage and error of its failed page. Later
stages repeat it, so that each file lists all failed pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

Contour = Sequence[Sequence[int]]
"""Points of an outline, each as [x, y]."""


@dataclass(frozen=True, slots=True)
class PageError:
    """The error of a failed page: its stage, its class in pagewarden.errors, and its message."""

    stage: str
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image in the bucket: its key, and the SHA-256 of its bytes."""

    key: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Columns of all files."""

    image_name: str
    ok: bool = True
    error_stage: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    confidence: float | None = None
    model_version: str = ""

    @property
    def error(self) -> PageError | None:
        """Return the error of the page; None if it did not fail."""
        if self.ok:
            return None
        return PageError(self.error_stage or "", self.error_type or "", self.error_message or "")

    @property
    def image(self) -> StoredImage | None:
        """Return the image of the row; None if it has none."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedPage(Row):
    """A page of line_detection.parquet.

    page_angle: degrees by which the original was rotated clockwise.
    rot_mask: PNG mask of the line cores on the rotated image, in the resolution of the model.
    tps_ratio: how far long lines depart from straight, in heights of their cores; null if not
        measured.
    tps_points: rows of x, y, and the distance in pixels by which the point was lower before
        dewarping; null without dewarping.
    width, height, dpi: of the original as displayed.
    scaled_width, scaled_height: of the processed image, which is smaller if the original is huge.
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
    def image(self) -> StoredImage | None:
        """Return the rotated image."""
        key, sha256 = self.rotated_image_path, self.rotated_image_sha256
        return StoredImage(key, sha256) if key and sha256 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineImage(Row):
    """A line of line_images.parquet; line_index counts from 0 in reading order.

    bbox, center, contour: of the core of the line.
    corners: of the line image, clockwise from the beginning of the text.
    block: number of the paragraph or column on the page.
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
    def image(self) -> StoredImage | None:
        """Return the line image."""
        key, sha256 = self.line_image_path, self.line_image_sha256
        return StoredImage(key, sha256) if key and sha256 else None


class LineWord(TypedDict):
    """A word; left and right are positions along its line, 0 to 1."""

    text: str
    left: float
    right: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineText(Row):
    """A line of ocr_results.parquet; text is empty if nothing was recognised."""

    line_index: int | None = None
    line_guid: str | None = None
    text: str | None = None
    encoding: str | None = None
    words: Sequence[LineWord] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedText(LineText):
    """A line of combined.parquet.

    source: key of the file from which the text was taken.
    agreeing: number of files with the same text.
    """

    source: str | None = None
    agreeing: int | None = None
