"""A volume as people look at it, page by page: of its files only what is shown is read."""

from __future__ import annotations

import contextlib
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyarrow import compute  # type: ignore[import-untyped]  # it ships no types

from pagewarden.volumes.artifacts import parquet, rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from pagewarden.volumes import layout

R = TypeVar("R", bound=rows.Row)

_Texts = parquet.Reader[rows.LineText] | parquet.Reader[rows.CombinedText]

_TROUBLE = ("image_name", "ok", "error_stage", "error_type", "error_message")
_SHOWN = (
    *_TROUBLE, "rotated_image_path", "rotated_image_sha256", "rotated_width", "rotated_height",
    "page_angle", "dewarping_applied", "filtered_contours",
)  # fmt: skip
_WHOSE = ("source", "agreeing")


@dataclass(frozen=True, slots=True)
class Files:
    """Copies of what the stages have published of a volume; None where there is nothing yet."""

    keys: layout.Volume
    detected: Path
    lines: Path | None
    texts: Path | None
    combined: Path | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A page in the list of its volume, counted from 1; trouble says why it failed."""

    number: int
    image_name: str
    trouble: rows.Trouble | None


@dataclass(frozen=True, slots=True)
class Figures:
    """How many lines a page has, how many of them were read, and how sure the reader is.

    What nobody knows yet is None.
    """

    lines: int
    read: int | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line: the outline of its core, the corners of what was cut out, and its text.

    Places are rows of x and y, pixels of the rotated image. What nobody knows yet is None. Of a
    line that was combined, source is the key of the file it is from, and agreeing how many say so.
    """

    core: Sequence[Sequence[float]]
    corners: Sequence[Sequence[float]] | None = None
    text: str | None = None
    confidence: float | None = None
    source: str | None = None
    agreeing: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its lines, in reading order once they are cut out.

    waits_for is the stage that has to come before there are texts; None where all was done.
    """

    listed: Listed
    detected: rows.DetectedPage
    lines: Sequence[Line]
    waits_for: str | None


@dataclass(frozen=True, slots=True)
class _Volume:
    """Files that fit together: what was made of others than there are now is as good as none."""

    detected: parquet.Reader[rows.DetectedPage]
    lines: parquet.Reader[rows.LineImage] | None
    texts: _Texts | None
    is_combined: bool


def pages(files: Files) -> list[Listed]:
    """List all pages in their order, with what went wrong at whatever stage."""
    with _opened(files) as volume:
        return _listed(volume)


def figures(files: Files, names: Collection[str]) -> dict[str, Figures]:
    """Count the lines of some pages."""
    if not names:
        return {}
    with _opened(files) as volume:
        if volume.texts is not None:
            return _of_texts(volume.texts, names)
        if volume.lines is None:
            return {}
        counts = dict.fromkeys(names, 0)
        for row in volume.lines.picked("image_name", "ok", where=_of_pages(names)):
            counts[row.image_name] += row.ok
        return {name: Figures(count) for name, count in counts.items()}


def page(files: Files, image_name: str) -> Page | None:
    """Look at one page; None if the volume has none of this name."""
    with _opened(files) as volume:
        for listed in _listed(volume):
            if listed.image_name == image_name:
                return _page(volume, listed)
    return None


def picture(files: Files, image_name: str) -> rows.Image | None:
    """Name the rotated image of a page; None if there is none."""
    with parquet.Reader(files.detected, parquet.LINE_DETECTION, files.keys.line_detection) as found:
        columns = ("image_name", "rotated_image_path", "rotated_image_sha256")
        for row in found.picked(*columns, where=_of_pages([image_name])):
            return row.image
    return None


@contextlib.contextmanager
def _opened(files: Files) -> Iterator[_Volume]:
    with contextlib.ExitStack() as stack:

        def read(
            path: Path | None, table: parquet.Table[R], key: str, of: str | None
        ) -> parquet.Reader[R] | None:
            if path is None or of is None:
                return None
            reader = stack.enter_context(parquet.Reader(path, table, key))
            return reader if reader.stamp.input == of else None

        keys = files.keys
        detected = stack.enter_context(
            parquet.Reader(files.detected, parquet.LINE_DETECTION, keys.line_detection)
        )
        lines = read(files.lines, parquet.LINE_IMAGES, keys.line_images, detected.digest)
        below = lines.digest if lines else None
        texts = read(files.texts, parquet.OCR_RESULTS, keys.ocr_results, below)
        read_here = texts.digest if texts else None
        combined = read(files.combined, parquet.COMBINED, keys.combined, read_here)
        yield _Volume(detected, lines, combined or texts, combined is not None)


def _listed(volume: _Volume) -> list[Listed]:
    later = volume.texts or volume.lines
    failed = later.picked(*_TROUBLE, where=~compute.field("ok")) if later else ()
    troubles = {row.image_name: row.trouble for row in failed}
    return [
        Listed(number, row.image_name, row.trouble or troubles.get(row.image_name))
        for number, row in enumerate(volume.detected.picked(*_TROUBLE), 1)
    ]


def _of_texts(texts: _Texts, names: Collection[str]) -> dict[str, Figures]:
    found: dict[str, list[rows.LineText]] = {name: [] for name in names}
    columns = ("image_name", "ok", "text", "confidence")
    for row in texts.picked(*columns, where=_of_pages(names)):
        if row.ok:
            found[row.image_name].append(row)
    return {name: _count(lines) for name, lines in found.items()}


def _count(lines: Sequence[rows.LineText]) -> Figures:
    read = [line.confidence or 0.0 for line in lines if line.text]
    return Figures(len(lines), len(read), statistics.fmean(read) if read else None)


def _page(volume: _Volume, listed: Listed) -> Page:
    where = _of_pages([listed.image_name])
    detected = next(volume.detected.picked(*_SHOWN, where=where))
    if volume.lines is None:
        contours = detected.filtered_contours or ()
        return Page(listed, detected, [Line(one) for one in contours], "line_extraction")
    columns = ("image_name", "ok", "line_guid", "contour", "corners")
    lines = [row for row in volume.lines.picked(*columns, where=where) if row.ok]
    if volume.texts is None:
        return Page(listed, detected, [_line(line, None) for line in lines], "ocr")
    read = _read(volume.texts, where, *_WHOSE if volume.is_combined else ())
    return Page(listed, detected, [_line(line, read.get(line.line_guid)) for line in lines], None)


def _read(texts: _Texts, where: compute.Expression, *more: str) -> dict[str | None, rows.LineText]:
    columns = ("image_name", "ok", "line_guid", "text", "confidence", *more)
    return {row.line_guid: row for row in texts.picked(*columns, where=where) if row.ok}


def _line(cut: rows.LineImage, read: rows.LineText | None) -> Line:
    places = cut.contour or (), cut.corners
    if read is None:
        return Line(*places)
    whose = (read.source, read.agreeing) if isinstance(read, rows.CombinedText) else ()
    return Line(*places, read.text, read.confidence, *whose)


def _of_pages(names: Collection[str]) -> compute.Expression:
    return compute.field("image_name").isin(list(names))
