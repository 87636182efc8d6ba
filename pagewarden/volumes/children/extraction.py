"""Cuts the lines of a page out, in the order in which they are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.reading import order, pages
from pagewarden.reading.lines import crops, detection, placing
from pagewarden.volumes.children import answers, parcels, pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.reading.sandbox import duties, wire

# In heights of a line: pieces of one line are not further apart than this, nor less level.
_APART = 1.0
_LEVEL = 0.5

# Stand for what nobody has read yet: the order of a page depends on the direction of its script.
_LEFT_TO_RIGHT = "a"
_RIGHT_TO_LEFT = "\N{HEBREW LETTER ALEF}"


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    outline: NDArray[np.int32]
    confidence: float
    crop: crops.Crop

    def line(self, text: str) -> pages.Line:
        return pages.Line(text, self.crop.part(*placing.extent(self.crop)), self.confidence)


class Extraction:
    """Cuts out the lines of one page after another; see config.Config for what it is made of."""

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
        # A taller picture than the tolerance allows is made with a lower factor.
        self._growth = min(k_factor, bbox_tolerance) - 1
        self._merge_lines = merge_lines
        self._masked = masked
        self._letter = _RIGHT_TO_LEFT if right_to_left else _LEFT_TO_RIGHT

    def do(self, work: duties.Work) -> tuple[wire.Message, bytes]:
        """Take a rotated image and the outlines on it; give the lines, and a picture of each."""
        pixels = pictures.from_jpeg(work.blob, work.request["name"])
        pieces = [
            self._cut(pixels, np.array(contour, np.int32), sure)
            for contour, sure in zip(
                work.request["contours"], work.request["confidences"], strict=True
            )
        ]
        ordered = self._ordered(pieces)
        if self._merge_lines:
            merged = [self._joined(pixels, group) for group in _rows(ordered)]
            ordered = self._ordered(merged)
        facts = [_facts(piece, block) for piece, block in ordered]
        made = [self._picture(piece) for piece, _ in ordered]
        return parcels.pack(answers.LINES, facts, made)

    def _cut(self, pixels: NDArray[np.uint8], outline: NDArray[np.int32], sure: float) -> _Piece:
        corners = detection.grown(outline, self._growth)
        return _Piece(outline, sure, crops.cut(pixels, corners))

    def _ordered(self, pieces: Sequence[_Piece]) -> list[tuple[_Piece, int]]:
        """Bring pieces into reading order; gives the block of each."""
        # The number after the letter says which piece it was.
        lines = [piece.line(f"{self._letter}{n}") for n, piece in enumerate(pieces)]
        ordered = order.in_reading_order(lines)
        return [(pieces[int(line.text[1:])], line.block) for line in ordered]

    def _joined(self, pixels: NDArray[np.uint8], group: Sequence[_Piece]) -> _Piece:
        if len(group) == 1:
            return group[0]
        lengths = [float(np.ptp(piece.outline[:, 0])) for piece in group]
        sure = float(np.average([piece.confidence for piece in group], weights=lengths))
        outline = cv2.convexHull(np.vstack([piece.outline for piece in group])).reshape(-1, 2)
        return self._cut(pixels, np.asarray(outline, np.int32), sure)

    def _picture(self, piece: _Piece) -> bytes:
        pixels = _masked(piece, self._growth) if self._masked else piece.crop.pixels
        return pictures.to_jpeg(pixels)


def _rows(ordered: Sequence[tuple[_Piece, int]]) -> list[list[_Piece]]:
    """Group pieces that follow each other in a block and stand beside each other."""
    rows: list[list[_Piece]] = []
    block_before = None
    for piece, block in ordered:
        if rows and block == block_before and _beside(rows[-1][-1], piece):
            rows[-1].append(piece)
        else:
            rows.append([piece])
        block_before = block
    return rows


def _beside(one: _Piece, other: _Piece) -> bool:
    (left, top, width, height), (left2, top2, width2, height2) = (
        cv2.boundingRect(piece.outline) for piece in (one, other)
    )
    gap = max(left2 - left - width, left - left2 - width2)
    shared = min(top + height, top2 + height2) - max(top, top2)
    tall = math.dist(*one.crop.corners[[0, 3]])
    return 0 <= gap < _APART * tall and shared > _LEVEL * min(height, height2)


def _masked(piece: _Piece, growth: float) -> NDArray[np.uint8]:
    """Paint what is further from the core than the line reaches as if it were paper."""
    pixels = piece.crop.pixels
    height, width = pixels.shape[:2]
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    way = cv2.getPerspectiveTransform(piece.crop.corners, target)
    moved = cv2.perspectiveTransform(piece.outline[None].astype(np.float32), way)[0]
    mask = cv2.fillPoly(np.zeros((height, width), np.uint8), [np.rint(moved).astype(np.int32)], 1)
    core = max(float(np.median(mask.sum(axis=0, dtype=np.int64))), 1.0)
    reach = 2 * math.ceil(growth * core / 2) + 1
    kept = cv2.dilate(mask, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach)))
    painted = pixels.copy()
    painted[kept == 0] = np.median(pixels.reshape(height * width, -1), axis=0)
    return painted


def _facts(piece: _Piece, block: int) -> answers.Line:
    first, second, third, fourth = ((x, y) for x, y in piece.crop.corners.astype(float).tolist())
    return answers.Line(
        [(x, y) for x, y in piece.outline.tolist()],
        piece.confidence,
        (first, second, third, fourth),
        block,
    )
