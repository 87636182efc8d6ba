"""Find lines with the PP-OCR detector or with a given model of the same form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pagewarden.ocr.lines import ppocr_models

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

GROWTH = 1.6
"""The model marks only the core of a line; this factor expands it to the whole line."""

# The model halves its image five times.
_MULTIPLE = 32

# A small image is scaled up, but only by this factor: more shows no more detail.
_MAX_UPSCALING = 2.0

# Thresholds for a pixel and for the mean of a core; pixels for the height of a core.
_MIN_PIXEL = 0.3
_MIN_CONFIDENCE = 0.5
_MIN_HEIGHT = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class LineCore:
    """The core of a line: its outline, rows of x and y, and its confidence, 0 to 1."""

    outline: NDArray[np.int32]
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class LineMask:
    """The output of the model for a page: a mask of 0 and 1, and the cores of lines in it.

    Both refer to a smaller image; factors convert its pixels to those of the page.
    """

    mask: NDArray[np.uint8]
    cores: Sequence[LineCore]
    factors: NDArray[np.float32]


class Detector:
    """Finds lines; the longer side of a page is scaled to long_side pixels.

    model is an ONNX file with another model.
    """

    def __init__(
        self,
        long_side: int,
        device: ppocr_models.Device = ppocr_models.ONE_CORE,
        *,
        model: Path | None = None,
    ) -> None:
        self._session = (
            ppocr_models.load_custom_detector(model, device)
            if model
            else ppocr_models.load_detector(device)
        )
        self._size = ppocr_models.get_fixed_size(self._session)
        self._input = self._session.get_inputs()[0].name
        self._long_side = long_side

    def find(self, pixels: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
        """Return four corners for each line, clockwise from the top left, top line first."""
        mask = self.detect_cores(pixels)
        quads = [expand_outline(core.outline, GROWTH) * mask.factors for core in mask.cores]
        found = [np.asarray(quad, np.float32) for quad in quads]
        return sorted(found, key=lambda quad: (float(quad[0, 1]), float(quad[0, 0])))

    def detect_cores(self, pixels: NDArray[np.uint8]) -> LineMask:
        """Find the cores of lines."""
        heat_map = self._compute_heat_map(pixels)
        mask = cv2.dilate((heat_map > _MIN_PIXEL).astype(np.uint8), np.ones((2, 2), np.uint8))
        contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        found = (_make_core(np.asarray(contour, np.int32), heat_map) for contour in contours)
        factors = np.asarray(np.divide(pixels.shape[1::-1], heat_map.shape[::-1]), np.float32)
        return LineMask(np.asarray(mask), [core for core in found if core is not None], factors)

    def _compute_heat_map(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return for each pixel of the scaled page the probability that it is text."""
        height, width = pixels.shape[:2]
        factor = min(self._long_side / max(height, width), _MAX_UPSCALING)
        size = self._size or [
            max(round(side * factor / _MULTIPLE), 1) * _MULTIPLE for side in (width, height)
        ]
        area = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        scaled = cv2.resize(pixels, size, interpolation=area).astype(np.float32)
        (heat_map,) = self._session.run(None, {self._input: ppocr_models.to_planes(scaled)[None]})
        return np.asarray(heat_map[0, 0])


def expand_outline(outline: NDArray[np.int32], growth: float) -> NDArray[np.float32]:
    """Return the corners of the rectangle around an outline, expanded on all sides.

    The expansion is growth times area over perimeter; corners go clockwise from the top left.
    """
    centre, (width, height), angle = cv2.minAreaRect(outline)
    more = growth * width * height / max(width + height, 1.0)
    corners = cv2.boxPoints((centre, (width + more, height + more), angle))
    return _start_at_top_left(np.asarray(corners, np.float32))


def _make_core(contour: NDArray[np.int32], heat_map: NDArray[np.float32]) -> LineCore | None:
    _, size, _ = cv2.minAreaRect(contour)
    if (
        min(size) < _MIN_HEIGHT
        or (confidence := _compute_mean_confidence(contour, heat_map)) < _MIN_CONFIDENCE
    ):
        return None
    return LineCore(contour.reshape(-1, 2), confidence)


def _compute_mean_confidence(contour: NDArray[np.int32], heat_map: NDArray[np.float32]) -> float:
    left, top, width, height = cv2.boundingRect(contour)
    mask = np.zeros((height, width), np.uint8)
    cv2.drawContours(mask, [contour], -1, 1, cv2.FILLED, offset=(-left, -top))
    return cv2.mean(heat_map[top : top + height, left : left + width], mask)[0]


def _start_at_top_left(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Begin with the corner nearest the top left; minAreaRect goes clockwise already."""
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)
