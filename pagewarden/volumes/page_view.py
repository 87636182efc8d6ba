"""Pages, lines and files of a volume for people: fetched from the bucket and cached.

Only the displayed rows and columns of the Parquet files are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyarrow import compute  # type: ignore[import-untyped]  # it ships no types

from pagewarden import errors
from pagewarden.storage import file_cache, scratch
from pagewarden.volumes import artifacts, exports
from pagewarden.volumes.artifacts import parquet, publish, rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Sequence
    from pathlib import Path

    from pagewarden.settings import Settings
    from pagewarden.volumes import artifact_keys

R = TypeVar("R", bound=rows.Row)

_Texts = parquet.Reader[rows.LineText] | parquet.Reader[rows.CombinedText]

# Enough for browsing a volume page by page.
_CACHE_BYTES = 256_000_000
_CACHE_SECONDS = 600.0
_VIEW_TIMEOUT_SECONDS = 20.0
# Longer, because a download starts only after the whole file is cached.
_DOWNLOAD_TIMEOUT_SECONDS = 300.0

_ERROR_COLUMNS = ("image_name", "ok", "error_stage", "error_type", "error_message")
_PAGE_COLUMNS = (
    *_ERROR_COLUMNS,
    "rotated_image_path", "rotated_image_sha256", "rotated_width", "rotated_height",
    "page_angle", "dewarping_applied", "filtered_contours",
)  # fmt: skip
_SOURCE_COLUMNS = ("source", "agreeing")


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page in the list of a volume, counted from 1; error says why it failed."""

    number: int
    image_name: str
    error: rows.PageError | None


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """Number of lines of a page, number of lines with text, and mean confidence.

    None if the page has not been read yet.
    """

    lines: int
    read: int | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line: the outline of its core, the corners of its image, and its text.

    Coordinates are rows of x and y, in pixels of the rotated image. Values that no stage has
    published yet are None. Of a combined text, source is the key of its file, and agreeing the
    number of files with the same text.
    """

    core: Sequence[Sequence[float]]
    corners: Sequence[Sequence[float]] | None = None
    text: str | None = None
    confidence: float | None = None
    source: str | None = None
    agreeing: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its lines, in reading order once they are extracted.

    waits_for is the next stage needed for texts; None if there are texts.
    """

    listed: ListedPage
    detected: rows.DetectedPage
    lines: Sequence[Line]
    waits_for: str | None


@dataclass(frozen=True, slots=True)
class VolumeReader:
    """Views of the volumes in a bucket; errors are PagewardenErrors."""

    bucket: artifacts.Bucket
    files: file_cache.FileCache
    timeout_seconds: float = _VIEW_TIMEOUT_SECONDS

    async def list_pages(self, edition: artifact_keys.VolumeVersion) -> list[ListedPage]:
        """List the pages of a volume in their order."""
        async with self._fetch_files(edition) as files:
            return await asyncio.to_thread(list_pages, files)

    async def count_lines(
        self, edition: artifact_keys.VolumeVersion, names: Collection[str]
    ) -> dict[str, PageStatistics]:
        """Count the lines of some pages."""
        async with self._fetch_files(edition) as files:
            return await asyncio.to_thread(count_lines, files, names)

    async def read_page(self, edition: artifact_keys.VolumeVersion, name: str) -> Page | None:
        """Read one page; None if the volume has no page of this name."""
        async with self._fetch_files(edition) as files:
            return await asyncio.to_thread(read_page, files, name)

    async def fetch_rotated_image(
        self, edition: artifact_keys.VolumeVersion, name: str
    ) -> bytes | None:
        """Fetch the rotated image of a page as JPEG; None if there is no such page."""
        keys = edition.keys
        async with self._open_cached(edition, keys.line_detection) as detected:
            image = await asyncio.to_thread(
                find_rotated_image, VolumeFiles(keys, detected, None, None), name
            )
        if image is None:
            return None
        async with _limit_time(self.timeout_seconds):
            return await publish.fetch_image(self.bucket, image, keys.line_detection)

    async def list_files(self, edition: artifact_keys.VolumeVersion) -> list[exports.StoredFile]:
        """List the existing files of a volume that can be downloaded."""
        keys = edition.keys
        found = []
        for file in exports.list_stage_files(keys):
            # Fetched instead of listed: their folders may contain very many images, and viewing
            # pages needs the files in the cache anyway.
            with contextlib.suppress(errors.FileNotFound):
                async with self._open_cached(edition, file.key) as path:
                    found.append(exports.StoredFile(file, path.stat().st_size))
        async with _limit_time(self.timeout_seconds):
            folder = keys.combined.rpartition("/")[0]
            sizes = {entry.key: entry.size async for entry in self.bucket.list(folder)}
        return found + [
            exports.StoredFile(file, sizes[file.key])
            for file in exports.list_reduce_files(keys)
            if file.key in sizes
        ]

    @contextlib.asynccontextmanager
    async def open_file(
        self, edition: artifact_keys.VolumeVersion, name: str
    ) -> AsyncIterator[scratch.LocalCopy]:
        """Copy a file of list_files to this machine; raise FileNotFound for any other name."""
        file = exports.find_file(edition.keys, name)
        if file is None:
            raise errors.FileNotFound("volumes have no file with this name")
        async with self._open_cached(edition, file.key, _DOWNLOAD_TIMEOUT_SECONDS) as path:
            yield scratch.LocalCopy(path, file.name, file.media_type)

    @contextlib.asynccontextmanager
    async def _fetch_files(
        self, edition: artifact_keys.VolumeVersion
    ) -> AsyncIterator[VolumeFiles]:
        async with contextlib.AsyncExitStack() as stack:

            async def fetch(key: str) -> Path | None:
                try:
                    return await stack.enter_async_context(self._open_cached(edition, key))
                except errors.FileNotFound:
                    return None

            keys = edition.keys
            detected = await fetch(keys.line_detection)
            if detected is None:
                raise errors.FileNotFound("no pages yet; stage line_detection creates them")
            lines, texts = await fetch(keys.line_images), await fetch(keys.ocr_results)
            combined = await fetch(keys.combined) if edition.combined else None
            yield VolumeFiles(keys, detected, lines, texts, combined)

    def _open_cached(
        self, edition: artifact_keys.VolumeVersion, key: str, timeout: float | None = None
    ) -> contextlib.AbstractAsyncContextManager[Path]:
        async def fetch(path: Path) -> None:
            async with _limit_time(timeout or self.timeout_seconds):
                await self.bucket.fetch(key, path)

        return self.files.get(f"{key} {edition.version}", fetch)


@contextlib.asynccontextmanager
async def open_volume_reader(settings: Settings) -> AsyncIterator[VolumeReader]:
    """Open the output bucket of the settings for viewing."""
    async with artifacts.open_bucket(artifacts.get_output_address(settings), settings) as bucket:
        with scratch.open_private_folder() as folder:
            files = file_cache.FileCache(folder, max_bytes=_CACHE_BYTES, seconds=_CACHE_SECONDS)
            yield VolumeReader(bucket, files)


@contextlib.asynccontextmanager
async def _limit_time(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as exc:
        raise errors.StoreUnavailable("the bucket is not responding; retry later") from exc


# Reading local copies ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VolumeFiles:
    """Local copies of the published files of a volume; None if a file does not exist yet."""

    keys: artifact_keys.VolumeKeys
    detected: Path
    lines: Path | None
    texts: Path | None
    combined: Path | None = None


@dataclass(frozen=True, slots=True)
class _Volume:
    """Open files made from each other; a file made from another version is treated as missing."""

    detected: parquet.Reader[rows.DetectedPage]
    lines: parquet.Reader[rows.LineImage] | None
    texts: _Texts | None
    is_combined: bool


def list_pages(files: VolumeFiles) -> list[ListedPage]:
    """List all pages in their order, with the errors of all stages."""
    with _open_volume(files) as volume:
        return _list_pages(volume)


def count_lines(files: VolumeFiles, names: Collection[str]) -> dict[str, PageStatistics]:
    """Count the lines of some pages."""
    if not names:
        return {}
    with _open_volume(files) as volume:
        if volume.texts is not None:
            return _count_texts(volume.texts, names)
        if volume.lines is None:
            return {}
        counts = dict.fromkeys(names, 0)
        for row in volume.lines.select("image_name", "ok", where=_make_page_filter(names)):
            counts[row.image_name] += row.ok
        return {name: PageStatistics(count) for name, count in counts.items()}


def read_page(files: VolumeFiles, image_name: str) -> Page | None:
    """Read one page; None if the volume has no page of this name."""
    with _open_volume(files) as volume:
        for listed in _list_pages(volume):
            if listed.image_name == image_name:
                return _to_page(volume, listed)
    return None


def find_rotated_image(files: VolumeFiles, image_name: str) -> rows.StoredImage | None:
    """Find the key and digest of the rotated image of a page."""
    key = files.keys.line_detection
    with parquet.Reader(files.detected, parquet.LINE_DETECTION, key) as reader:
        columns = ("image_name", "rotated_image_path", "rotated_image_sha256")
        for row in reader.select(*columns, where=_make_page_filter([image_name])):
            return row.image
    return None


@contextlib.contextmanager
def _open_volume(files: VolumeFiles) -> Iterator[_Volume]:
    with contextlib.ExitStack() as stack:

        def open_reader(
            path: Path | None, table: parquet.Table[R], key: str, input_digest: str | None
        ) -> parquet.Reader[R] | None:
            if path is None or input_digest is None:
                return None
            reader = stack.enter_context(parquet.Reader(path, table, key))
            return reader if reader.stamp.input == input_digest else None

        keys = files.keys
        detected = stack.enter_context(
            parquet.Reader(files.detected, parquet.LINE_DETECTION, keys.line_detection)
        )
        lines = open_reader(files.lines, parquet.LINE_IMAGES, keys.line_images, detected.digest)
        lines_digest = lines.digest if lines else None
        texts = open_reader(files.texts, parquet.OCR_RESULTS, keys.ocr_results, lines_digest)
        texts_digest = texts.digest if texts else None
        combined = open_reader(files.combined, parquet.COMBINED, keys.combined, texts_digest)
        yield _Volume(detected, lines, combined or texts, combined is not None)


def _list_pages(volume: _Volume) -> list[ListedPage]:
    later = volume.texts or volume.lines
    failed = later.select(*_ERROR_COLUMNS, where=~compute.field("ok")) if later else ()
    later_errors = {row.image_name: row.error for row in failed}
    return [
        ListedPage(number, row.image_name, row.error or later_errors.get(row.image_name))
        for number, row in enumerate(volume.detected.select(*_ERROR_COLUMNS), 1)
    ]


def _count_texts(texts: _Texts, names: Collection[str]) -> dict[str, PageStatistics]:
    by_page: dict[str, list[rows.LineText]] = {name: [] for name in names}
    columns = ("image_name", "ok", "text", "confidence")
    for row in texts.select(*columns, where=_make_page_filter(names)):
        if row.ok:
            by_page[row.image_name].append(row)
    return {name: _to_figures(lines) for name, lines in by_page.items()}


def _to_figures(lines: Sequence[rows.LineText]) -> PageStatistics:
    confidences = [line.confidence or 0.0 for line in lines if line.text]
    mean = statistics.fmean(confidences) if confidences else None
    return PageStatistics(len(lines), len(confidences), mean)


def _to_page(volume: _Volume, listed: ListedPage) -> Page:
    where = _make_page_filter([listed.image_name])
    detected = next(volume.detected.select(*_PAGE_COLUMNS, where=where))
    if volume.lines is None:
        contours = detected.filtered_contours or ()
        return Page(listed, detected, [Line(contour) for contour in contours], "line_extraction")
    columns = ("image_name", "ok", "line_guid", "contour", "corners")
    lines = [row for row in volume.lines.select(*columns, where=where) if row.ok]
    if volume.texts is None:
        return Page(listed, detected, [_to_line(line, None) for line in lines], "ocr")
    texts = _read_texts(volume.texts, where, *_SOURCE_COLUMNS if volume.is_combined else ())
    shown = [_to_line(line, texts.get(line.line_guid)) for line in lines]
    return Page(listed, detected, shown, None)


def _read_texts(
    texts: _Texts, where: compute.Expression, *extra_columns: str
) -> dict[str | None, rows.LineText]:
    columns = ("image_name", "ok", "line_guid", "text", "confidence", *extra_columns)
    return {row.line_guid: row for row in texts.select(*columns, where=where) if row.ok}


def _to_line(line: rows.LineImage, text: rows.LineText | None) -> Line:
    outlines = line.contour or (), line.corners
    if text is None:
        return Line(*outlines)
    source = (text.source, text.agreeing) if isinstance(text, rows.CombinedText) else ()
    return Line(*outlines, text.text, text.confidence, *source)


def _make_page_filter(names: Collection[str]) -> compute.Expression:
    return compute.field("image_name").isin(list(names))
