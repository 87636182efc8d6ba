"""The pages of a volume, put together of what its stages have published, one after another."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pagewarden import errors
from pagewarden.reading import pages
from pagewarden.reading.lines import crops
from pagewarden.volumes import geometry, layout
from pagewarden.volumes.artifacts import parquet, published, rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
    from pathlib import Path

    from pagewarden.volumes import artifacts

R = TypeVar("R", bound=rows.Row)

_EDGES = 9  # along a line that was curved: no page is so wavy that there should be more


@dataclass(frozen=True, slots=True)
class Page:
    """A page: what was detected, its lines, and their texts; trouble says why it failed.

    Lines and texts are of the same lines, in reading order; a page that failed has none.
    """

    number: int
    detected: rows.DetectedPage
    lines: Sequence[rows.LineImage]
    texts: Sequence[rows.LineText]
    trouble: rows.Trouble | None = None

    def read(self) -> pages.ReadPage:
        """Give it as any other page that was read; places are pixels of the original."""
        if self.trouble is not None:
            size = self.detected.width or 0, self.detected.height or 0, self.detected.dpi or 0.0
            message = self.trouble.message
            return pages.ReadPage(self.number, *size, pages.Source.FAILED, error=message)
        way = geometry.WayBack(self.detected)
        rotation = round((self.detected.page_angle or 0.0) / 90) * 90 % 360
        return pages.ReadPage(
            number=self.number,
            width=self.detected.width or 0,
            height=self.detected.height or 0,
            dpi=self.detected.dpi or 0.0,
            source=pages.Source.OCR,
            lines=tuple(
                _line(line, text, way)
                for line, text in zip(self.lines, self.texts, strict=True)
                if text.text
            ),
            rotation=rotation,
            skew=_skew(self.detected.page_angle or 0.0),
            engine=self.texts[0].model_version if self.texts else "",
        )


@dataclass(frozen=True, slots=True)
class Volume:
    """What the three stages have published of a volume; it fits together, or is refused."""

    detected: parquet.Reader[rows.DetectedPage]
    lines: parquet.Reader[rows.LineImage]
    texts: parquet.Reader[rows.LineText]

    def __post_init__(self) -> None:
        require_made_of(self.lines, self.detected)
        require_made_of(self.texts, self.lines)

    def pages(self, texts: Iterable[rows.LineText] | None = None) -> Iterator[Page]:
        """Go through the pages; texts may be others than those of the volume itself."""
        lines, words = Grouped(self.lines), Grouped(self.texts if texts is None else texts)
        for number, detected in enumerate(self.detected, 1):
            name = detected.image_name
            yield _page(number, detected, lines.of(name), words.of(name))


def require_made_of(later: parquet.Reader[Any], earlier: parquet.Reader[Any]) -> None:
    """Refuse a file that was made of another one than there is now."""
    if later.stamp.input != earlier.digest:
        raise errors.ArtifactUnusable(
            f"{later.key} was made of another {earlier.key} than there is now. Run the stage "
            "again that makes it."
        )


@contextlib.asynccontextmanager
async def opened(
    bucket: artifacts.Bucket, keys: layout.Volume, scratch: Path
) -> AsyncGenerator[Volume]:
    """Open a volume that went through the three stages."""
    async with (
        published.opened(bucket, parquet.LINE_DETECTION, keys.line_detection, scratch) as detected,
        published.opened(bucket, parquet.LINE_IMAGES, keys.line_images, scratch) as lines,
        published.opened(bucket, parquet.OCR_RESULTS, keys.ocr_results, scratch) as texts,
    ):
        yield Volume(detected, lines, texts)


class Grouped(Generic[R]):
    """Rows that are in the order of their pages, but not of all pages."""

    def __init__(self, found: Iterable[R]) -> None:
        self._groups = itertools.groupby(found, key=lambda row: row.image_name)
        self._name: str | None = None
        self._rows: list[R] = []
        self._advance()

    def of(self, image_name: str) -> list[R]:
        """Give those of a page; it must come after all that were asked for before."""
        wanted = layout.page_order(image_name)
        while self._name is not None and layout.page_order(self._name) < wanted:
            self._advance()
        return self._rows if self._name == image_name else []

    def _advance(self) -> None:
        self._name, coming = next(self._groups, (None, ()))
        self._rows = list(coming)


def _page(
    number: int,
    detected: rows.DetectedPage,
    lines: Sequence[rows.LineImage],
    texts: Sequence[rows.LineText],
) -> Page:
    failed = next((row.trouble for row in (detected, *lines, *texts) if row.trouble), None)
    if failed is None and [line.line_guid for line in lines] != [text.line_guid for text in texts]:
        raise errors.ArtifactUnusable(
            f"{detected.image_name}: its lines and their texts are not the same. Run ocr again."
        )
    return Page(number, detected, () if failed else lines, () if failed else texts, failed)


def _line(line: rows.LineImage, text: rows.LineText, way: geometry.WayBack) -> pages.Line:
    corners = np.array(line.corners or [[0.0, 0.0]] * 4, np.float32)
    crop = crops.Crop(np.zeros((1, 1), np.uint8), corners)
    words = text.words or ()
    left = min((word["left"] for word in words), default=0.0)
    right = max((word["right"] for word in words), default=1.0)
    kind = (
        partial(pages.CurvedLine, edges=_edges(crop, left, right, way)) if way.bends else pages.Line
    )
    return kind(
        text.text or "",
        _back(crop.part(left, right), way),
        text.confidence or 0.0,
        tuple(
            pages.Word(
                word["text"], _back(crop.part(word["left"], word["right"]), way), word["confidence"]
            )
            for word in words
        ),
        line.block or 0,
    )


def _edges(
    crop: crops.Crop, left: float, right: float, way: geometry.WayBack
) -> tuple[pages.Edge, ...]:
    """Give points above and below each other along a line, as they were before dewarping."""
    places = np.linspace(left, right, _EDGES)
    found = [crop.part(place, place) for place in places]
    upper = way.places([quad[0] for quad in found]).tolist()
    lower = way.places([quad[3] for quad in found]).tolist()
    return tuple(
        (pages.Point(*above), pages.Point(*below))
        for above, below in zip(upper, lower, strict=True)
    )


def _back(quad: pages.Quad, way: geometry.WayBack) -> pages.Quad:
    first, second, third, fourth = (pages.Point(*place) for place in way.places(quad).tolist())
    return first, second, third, fourth


def _skew(angle: float) -> float:
    """Give what is left of an angle beside whole quarters; falling lines are positive."""
    return -((angle + 45) % 90 - 45)
