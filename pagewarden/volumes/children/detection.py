"""Sets a page upright and straight, and finds its lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pagewarden import errors
from pagewarden.exports import document
from pagewarden.reading import opening, rapid, upright
from pagewarden.reading.lines import detection, networks
from pagewarden.volumes import curves
from pagewarden.volumes.children import answers, parcels, pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pagewarden.reading import limits
    from pagewarden.reading.sandbox import duties, wire


SOFTWARE = f"{document.SOFTWARE} {document.VERSION}"


_ROUNDS = 2  # of dewarping


class Detection:
    """Finds the lines of one page after another."""

    def __init__(self, *, use_tps: bool, tps_ratio: float, model: str | None, version: str) -> None:
        self.version = f"{version or networks.version()}, {SOFTWARE}"
        self._detector = detection.Detector(rapid.LONG_SIDE, model=Path(model) if model else None)
        self._threshold = tps_ratio if use_tps else None

    def do(self, work: duties.Work) -> tuple[wire.Message, bytes]:
        """Take the file of an image; give what was found, the rotated image and the mask."""
        page = _open(work.blob, work.request["name"], work.bounds)
        image, (width, height) = page.render(), page.original
        straight = upright.straighten(image)
        pixels, marked = straight.image.pixels, self._detector.mark(straight.image.pixels)
        ratio, points = None, None
        if self._threshold is not None:
            ratio = curves.curvature(_midlines(marked, pixels))
            if ratio is not None and ratio >= self._threshold:
                pixels, marked, points = self._dewarped(pixels, marked)
        found = answers.Detected(
            page_angle=float(straight.rotation - straight.skew),
            tps_ratio=ratio,
            tps_points=points,
            contours=[[(x, y) for x, y in outline.tolist()] for outline in _outlines(marked)],
            confidences=[core.confidence for core in marked.cores],
            width=width,
            height=height,
            dpi=image.dpi * width / image.width,
            scaled_width=image.width,
            scaled_height=image.height,
            rotated_width=pixels.shape[1],
            rotated_height=pixels.shape[0],
        )
        files = pictures.to_jpeg(pixels), pictures.to_png(marked.mask)
        return parcels.pack(answers.DETECTED, found, files)

    def _dewarped(
        self, pixels: NDArray[np.uint8], marked: detection.Marked
    ) -> tuple[NDArray[np.uint8], detection.Marked, list[tuple[float, float, float]]]:
        """Set a curved page straight, and mark it anew.

        On the straightened page lines are told apart that had grown together before, so once more
        is better.
        """
        lines = _midlines(marked, pixels)
        for _ in range(_ROUNDS):
            points = curves.straightening(lines, pixels.shape[1])
            straight = curves.straightened(pixels, points)
            marked = self._detector.mark(straight)
            lines = [line.before(points) for line in _midlines(marked, straight)]
            if curves.curvature(lines) is None:
                break
        return straight, marked, points


def _open(data: bytes, name: str, bounds: limits.Limits) -> opening.PageSource:
    """Open an image of any kind that is read at all."""
    path = Path("original")
    path.write_bytes(data)
    document = opening.open_document(path, bounds, name=name)
    if document.page_count != 1:
        raise errors.UnsupportedFile(
            f"{name}: it has {document.page_count} pages, and in a volume each page is a file of "
            "its own. Split it."
        )
    return document.page(1)


def _midlines(marked: detection.Marked, pixels: NDArray[np.uint8]) -> list[curves.Midline]:
    return curves.midlines(_outlines(marked), pixels.shape[1])


def _outlines(marked: detection.Marked) -> Sequence[NDArray[np.int32]]:
    """Give the outlines of cores in pixels of the page, as they are written down."""
    return [np.rint(core.outline * marked.factors).astype(np.int32) for core in marked.cores]
