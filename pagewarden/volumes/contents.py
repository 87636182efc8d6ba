"""The pages of a volume, assembled one after another from the published files of its stages."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pagewarden import errors
from pagewarden.ocr import pages
from pagewarden.ocr.lines import crops
from pagewarden.volumes import artifact_keys, dewarping
from pagewarden.volumes.artifacts import parquet, publish, rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
    from pathlib import Path

    from pagewarden.volumes import artifacts

R = TypeVar("R", bound=rows.Row)

_EDGE_POINTS = 9  # along a curved line; enough for any page


@dataclass(frozen=True, slots=True)
class Page:
    """A page, its lines and their texts, in reading order; a failed page has an error instead."""

    number: int
    detected: rows.DetectedPage
    lines: Sequence[rows.LineImage]
    texts: Sequence[rows.LineText]
    error: rows.PageError | None = None

    def to_read_page(self) -> pages.ReadPage:
        """Convert to the form that all exports take, with coordinates of the original image."""
        detected = self.detected
        width, height, dpi = detected.width or 0, detected.height or 0, detected.dpi or 0.0
        if self.error is not None:
            return pages.ReadPage(
                self.number, width, height, dpi, pages.TextSource.FAILED, error=self.error.message
            )
        mapping = dewarping.OriginalMapping(detected)
        angle = detected.page_angle or 0.0
        return pages.ReadPage(
            number=self.number,
            width=width,
            height=height,
            dpi=dpi,
            source=pages.TextSource.OCR,
            lines=tuple(
                _to_line(line, text, mapping)
                for line, text in zip(self.lines, self.texts, strict=True)
                if text.text
            ),
            rotation=round(angle / 90) * 90 % 360,
            skew=_get_skew(angle),
            engine=self.texts[0].model_version if self.texts else "",
        )


@dataclass(frozen=True, slots=True)
class VolumeContents:
    """The published files of the first three stages; each must be made from the previous one."""

    detected: parquet.Reader[rows.DetectedPage]
    lines: parquet.Reader[rows.LineImage]
    texts: parquet.Reader[rows.LineText]

    def __post_init__(self) -> None:
        require_same_source(self.lines, self.detected)
        require_same_source(self.texts, self.lines)

    def iterate_pages(self, texts: Iterable[rows.LineText] | None = None) -> Iterator[Page]:
        """Iterate over the pages, with the given texts or else those of the volume."""
        lines = RowsByPage(self.lines)
        page_texts = RowsByPage(self.texts if texts is None else texts)
        for number, detected in enumerate(self.detected, 1):
            name = detected.image_name
            yield _to_page(
                number, detected, lines.get_page_rows(name), page_texts.get_page_rows(name)
            )


@contextlib.asynccontextmanager
async def open_contents(
    bucket: artifacts.Bucket, keys: artifact_keys.VolumeKeys, scratch: Path
) -> AsyncGenerator[VolumeContents]:
    """Open a volume that has completed the first three stages."""
    async with (
        publish.open_parquet(
            bucket, parquet.LINE_DETECTION, keys.line_detection, scratch
        ) as detected,
        publish.open_parquet(bucket, parquet.LINE_IMAGES, keys.line_images, scratch) as lines,
        publish.open_parquet(bucket, parquet.OCR_RESULTS, keys.ocr_results, scratch) as texts,
    ):
        yield VolumeContents(detected, lines, texts)


def require_same_source(later: parquet.Reader[Any], earlier: parquet.Reader[Any]) -> None:
    """Raise InvalidArtifact if a file was made from another version of the earlier file."""
    if later.stamp.input != earlier.digest:
        raise errors.InvalidArtifact(
            f"{later.key} was created from another version of {earlier.key}. Rerun the stage "
            "that creates it."
        )


class RowsByPage(Generic[R]):
    """Rows of a file grouped by page; they are in page order, but need not cover all pages."""

    def __init__(self, rows_in_order: Iterable[R]) -> None:
        self._groups = itertools.groupby(rows_in_order, key=lambda row: row.image_name)
        self._name: str | None = None
        self._rows: list[R] = []
        self._advance()

    def get_page_rows(self, image_name: str) -> list[R]:
        """Return the rows of a page; pages must be requested in their order."""
        requested = artifact_keys.page_sort_key(image_name)
        while self._name is not None and artifact_keys.page_sort_key(self._name) < requested:
            self._advance()
        return self._rows if self._name == image_name else []

    def _advance(self) -> None:
        self._name, group = next(self._groups, (None, ()))
        self._rows = list(group)


def _to_page(
    number: int,
    detected: rows.DetectedPage,
    lines: Sequence[rows.LineImage],
    texts: Sequence[rows.LineText],
) -> Page:
    error = next((row.error for row in (detected, *lines, *texts) if row.error), None)
    if error is not None:
        return Page(number, detected, (), (), error)
    if [line.line_guid for line in lines] != [text.line_guid for text in texts]:
        raise errors.InvalidArtifact(
            f"{detected.image_name}: line images and text differ. Rerun the stage ocr."
        )
    return Page(number, detected, lines, texts)


def _to_line(
    line: rows.LineImage, text: rows.LineText, mapping: dewarping.OriginalMapping
) -> pages.Line:
    corners = np.array(line.corners or [[0.0, 0.0]] * 4, np.float32)
    crop = crops.Crop(np.zeros((1, 1), np.uint8), corners)
    words = text.words or ()
    left = min((word["left"] for word in words), default=0.0)
    right = max((word["right"] for word in words), default=1.0)
    line_type = (
        partial(pages.CurvedLine, edges=_to_edges(crop, left, right, mapping))
        if mapping.is_curved
        else pages.Line
    )
    return line_type(
        text.text or "",
        _map_to_original(crop.quad_between(left, right), mapping),
        text.confidence or 0.0,
        tuple(
            pages.Word(
                word["text"],
                _map_to_original(crop.quad_between(word["left"], word["right"]), mapping),
                word["confidence"],
            )
            for word in words
        ),
        line.block or 0,
    )


def _to_edges(
    crop: crops.Crop, left: float, right: float, mapping: dewarping.OriginalMapping
) -> tuple[pages.Edge, ...]:
    """Return pairs of points above and below each other along a line, on the original image."""
    quads = [crop.quad_between(place, place) for place in np.linspace(left, right, _EDGE_POINTS)]
    upper = mapping.map_points([quad[0] for quad in quads]).tolist()
    lower = mapping.map_points([quad[3] for quad in quads]).tolist()
    return tuple(
        (pages.Point(*above), pages.Point(*below))
        for above, below in zip(upper, lower, strict=True)
    )


def _map_to_original(quad: pages.Quad, mapping: dewarping.OriginalMapping) -> pages.Quad:
    first, second, third, fourth = (
        pages.Point(*point) for point in mapping.map_points(quad).tolist()
    )
    return first, second, third, fourth


def _get_skew(angle: float) -> float:
    """Return the angle without its quarter turns; falling lines are positive."""
    return -((angle + 45) % 90 - 45)
