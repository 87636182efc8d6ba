"""Stage 1, in the sandbox: make a page upright, straighten it, and detect its lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pagewarden import SOFTWARE, errors
from pagewarden.ocr.document import SourcePage, open_document
from pagewarden.ocr.engines import rapid
from pagewarden.ocr.images import orientation
from pagewarden.ocr.images.pixels import encode_jpeg, encode_mask
from pagewarden.ocr.lines import detection, ppocr_models
from pagewarden.volumes import dewarping
from pagewarden.volumes.stages import child_protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.ocr import limits
    from pagewarden.ocr.sandbox import protocol, tasks


_DEWARPING_ROUNDS = 2


class LineDetector:
    """Detects the lines of pages, one page after another."""

    def __init__(self, *, use_tps: bool, tps_ratio: float, model: str | None, version: str) -> None:
        self.version = f"{version or ppocr_models.get_version()}, {SOFTWARE}"
        self._detector = detection.Detector(rapid.LONG_SIDE, model=Path(model) if model else None)
        self._min_curvature = tps_ratio if use_tps else None

    def run(self, request: tasks.TaskRequest) -> tuple[protocol.Message, bytes]:
        """Process an image file; return the lines, the rotated image and the mask."""
        page = _open_page(request.blob, request.message["name"], request.bounds)
        image, (width, height) = page.render(), page.original
        upright = orientation.straighten(image)
        pixels = upright.image.pixels
        marked = self.detect_lines(pixels)
        curvature, tps_points = None, None
        if self._min_curvature is not None:
            curvature = dewarping.measure_curvature(_find_midlines(marked, pixels))
            if curvature is not None and curvature >= self._min_curvature:
                pixels, marked, tps_points = self.apply_dewarping(pixels, marked)
        detected = child_protocol.DetectedLines(
            page_angle=float(upright.rotation - upright.skew),
            tps_ratio=curvature,
            tps_points=tps_points,
            contours=[[(x, y) for x, y in outline.tolist()] for outline in build_lines(marked)],
            confidences=[core.confidence for core in marked.cores],
            width=width,
            height=height,
            dpi=image.dpi * width / image.width,
            scaled_width=image.width,
            scaled_height=image.height,
            rotated_width=pixels.shape[1],
            rotated_height=pixels.shape[0],
        )
        files = encode_jpeg(pixels), encode_mask(marked.mask)
        return child_protocol.pack(child_protocol.DETECTED, detected, files)

    def detect_lines(self, pixels: NDArray[np.uint8]) -> detection.LineMask:
        """Return the mask of the line cores on a page."""
        return self._detector.detect_cores(pixels)

    def apply_dewarping(
        self, pixels: NDArray[np.uint8], line_mask: detection.LineMask
    ) -> tuple[NDArray[np.uint8], detection.LineMask, list[tuple[float, float, float]]]:
        """Straighten a curved page and detect its lines again.

        Lines that touched each other on the curved page are separate on the straight one, so a
        second round is more accurate.
        """
        midlines = _find_midlines(line_mask, pixels)
        for _ in range(_DEWARPING_ROUNDS):
            tps_points = dewarping.find_shifts(midlines, pixels.shape[1])
            straight = dewarping.straighten(pixels, tps_points)
            line_mask = self.detect_lines(straight)
            midlines = [
                line.undo_straightening(tps_points) for line in _find_midlines(line_mask, straight)
            ]
            if dewarping.measure_curvature(midlines) is None:
                break
        return straight, line_mask, tps_points


def build_lines(marked: detection.LineMask) -> Sequence[NDArray[np.int32]]:
    """Return the outlines of the line cores in pixels of the page."""
    return [np.rint(core.outline * marked.factors).astype(np.int32) for core in marked.cores]


def _find_midlines(
    line_mask: detection.LineMask, pixels: NDArray[np.uint8]
) -> list[dewarping.Midline]:
    return dewarping.find_midlines(build_lines(line_mask), pixels.shape[1])


def _open_page(data: bytes, name: str, bounds: limits.Limits) -> SourcePage:
    """Open an image file of any supported type."""
    path = Path("original")
    path.write_bytes(data)
    document = open_document(path, bounds, name=name)
    if document.page_count != 1:
        raise errors.UnsupportedFile(
            f"{name}: the file has {document.page_count} pages; in a volume, each file must "
            "contain a single page. Split it."
        )
    return document.open_page(1)
