"""Stage 2, in the sandbox: cut the lines of a page out of its rotated image, in reading order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr import pages
from pagewarden.ocr.images.pixels import decode_jpeg_bytes, encode_jpeg
from pagewarden.ocr.layout import order
from pagewarden.ocr.lines import crops, detection
from pagewarden.volumes.stages import child_protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.ocr.sandbox import protocol, tasks

# Lines that are merged have at most this gap, and overlap at least this much vertically; both in
# heights of a line.
_MAX_GAP = 1.0
_MIN_OVERLAP = 0.5

# Letters in place of the text, which is not read yet: the reading order depends on the direction.
_LEFT_TO_RIGHT = "a"
_RIGHT_TO_LEFT = "\N{HEBREW LETTER ALEF}"


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    outline: NDArray[np.int32]
    confidence: float
    crop: crops.Crop

    def with_text(self, text: str) -> pages.Line:
        return pages.Line(
            text, self.crop.quad_between(*crops.find_ink_extent(self.crop)), self.confidence
        )


class LineExtractor:
    """Extracts the lines of pages, one page after another; see VolumeConfig for the options."""

    version = ""

    def __init__(
        self,
        *,
        k_factor: float,
        bbox_tolerance: float,
        merge_lines: bool,
        masked: bool,
        right_to_left: bool,
    ) -> None:
        # A line image that would be higher than the tolerance gets a lower factor.
        self._growth = min(k_factor, bbox_tolerance) - 1
        self._merge_lines = merge_lines
        self._masked = masked
        self._letter = _RIGHT_TO_LEFT if right_to_left else _LEFT_TO_RIGHT

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Process a rotated image with outlines; return the lines and an image of each."""
        pixels = decode_jpeg_bytes(request.blob, request.message["name"])
        contours, confidences = request.message["contours"], request.message["confidences"]
        facts, line_images = self.extract_lines(pixels, contours, confidences)
        return child_protocol.pack(child_protocol.LINES, facts, line_images)

    def extract_lines(
        self,
        pixels: NDArray[np.uint8],
        contours: Sequence[Sequence[Sequence[int]]],
        confidences: Sequence[float],
    ) -> tuple[list[child_protocol.Line], list[bytes]]:
        """Cut lines out of a page, sort them, and merge them if the config asks for that."""
        lines = self.build_line_data(pixels, contours, confidences)
        ordered = self.sort_lines_by_threshold2(lines)
        if self._merge_lines:
            merged = [self._merge(pixels, row) for row in _group_into_rows(ordered)]
            ordered = self.sort_lines_by_threshold2(merged)
        facts = [_to_facts(line, block) for line, block in ordered]
        return facts, self.extract_line_images([line for line, _ in ordered])

    def build_line_data(
        self,
        pixels: NDArray[np.uint8],
        contours: Sequence[Sequence[Sequence[int]]],
        confidences: Sequence[float],
    ) -> list[_Line]:
        """Build lines from the outlines of their cores."""
        return [
            self._cut(pixels, np.array(contour, np.int32), confidence)
            for contour, confidence in zip(contours, confidences, strict=True)
        ]

    def sort_lines_by_threshold2(self, lines: Sequence[_Line]) -> list[tuple[_Line, int]]:
        """Sort lines into reading order; return each with its block."""
        # The number after the letter identifies the line.
        named = [line.with_text(f"{self._letter}{number}") for number, line in enumerate(lines)]
        ordered = order.sort_in_reading_order(named)
        return [(lines[int(line.text[1:])], line.block) for line in ordered]

    def extract_line_images(self, lines: Sequence[_Line]) -> list[bytes]:
        """Return the image of each line as JPEG."""
        if self._masked:
            return [encode_jpeg(_mask_surroundings(line, self._growth)) for line in lines]
        return [encode_jpeg(line.crop.pixels) for line in lines]

    def _cut(
        self, pixels: NDArray[np.uint8], outline: NDArray[np.int32], confidence: float
    ) -> _Line:
        corners = detection.expand_outline(outline, self._growth)
        return _Line(outline, confidence, crops.cut_line(pixels, corners))

    def _merge(self, pixels: NDArray[np.uint8], row: Sequence[_Line]) -> _Line:
        """Merge lines of a row; their confidence is weighted by length."""
        if len(row) == 1:
            return row[0]
        lengths = [float(np.ptp(line.outline[:, 0])) for line in row]
        confidence = float(np.average([line.confidence for line in row], weights=lengths))
        outline = cv2.convexHull(np.vstack([line.outline for line in row])).reshape(-1, 2)
        return self._cut(pixels, np.asarray(outline, np.int32), confidence)


def _group_into_rows(ordered_lines: Sequence[tuple[_Line, int]]) -> list[list[_Line]]:
    """Group consecutive lines of a block that stand beside each other."""
    rows: list[list[_Line]] = []
    previous_block = None
    for line, block in ordered_lines:
        if rows and block == previous_block and _are_side_by_side(rows[-1][-1], line):
            rows[-1].append(line)
        else:
            rows.append([line])
        previous_block = block
    return rows


def _are_side_by_side(one: _Line, other: _Line) -> bool:
    (left, top, width, height), (left2, top2, width2, height2) = (
        cv2.boundingRect(line.outline) for line in (one, other)
    )
    gap = max(left2 - left - width, left - left2 - width2)
    overlap = min(top + height, top2 + height2) - max(top, top2)
    line_height = math.dist(*one.crop.corners[[0, 3]])
    return 0 <= gap < _MAX_GAP * line_height and overlap > _MIN_OVERLAP * min(height, height2)


def _mask_surroundings(line: _Line, growth: float) -> NDArray[np.uint8]:
    """Paint pixels that are too far from the core in the colour of the paper."""
    pixels = line.crop.pixels
    height, width = pixels.shape[:2]
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    transform = cv2.getPerspectiveTransform(line.crop.corners, target)
    moved = cv2.perspectiveTransform(line.outline[None].astype(np.float32), transform)[0]
    mask = cv2.fillPoly(np.zeros((height, width), np.uint8), [np.rint(moved).astype(np.int32)], 1)
    core_height = max(float(np.median(mask.sum(axis=0, dtype=np.int64))), 1.0)
    reach = 2 * math.ceil(growth * core_height / 2) + 1
    reached = cv2.dilate(mask, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach)))
    painted = pixels.copy()
    painted[reached == 0] = np.median(pixels.reshape(height * width, -1), axis=0)
    return painted


def _to_facts(line: _Line, block: int) -> child_protocol.Line:
    first, second, third, fourth = ((x, y) for x, y in line.crop.corners.astype(float).tolist())
    return child_protocol.Line(
        [(x, y) for x, y in line.outline.tolist()],
        line.confidence,
        (first, second, third, fourth),
        block,
    )
