"""Files of a volume that people can download, and exports of the whole volume.

An export is one text file, or a zip archive with an ALTO or PAGE file for each page. Only files of
a fixed set can be downloaded, whatever else is in the folder of the volume.
"""

from __future__ import annotations

import contextlib
import shutil
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import concurrency, errors, exports
from pagewarden.exports import base
from pagewarden.storage import paths
from pagewarden.volumes import artifact_keys, contents
from pagewarden.volumes.artifacts import parquet, publish

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pagewarden.volumes import artifacts

SUFFIXES = {"txt": ".txt", "alto": ".alto.zip", "page": ".page.zip"}
"""File name suffix of each export format."""

# A constant date, so that the same pages always give the same bytes.
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)

_PARQUET_TYPE = "application/vnd.apache.parquet"
_MEDIA_TYPES = {"txt": "text/plain"}


# Files to download -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """A file of a volume: its kind, the stage that makes it, its key, and its download name."""

    kind: str
    stage: str
    key: str
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that exists, with its size in bytes."""

    file: VolumeFile
    size: int


def list_stage_files(keys: artifact_keys.VolumeKeys) -> list[VolumeFile]:
    """List the files that every completed volume has."""
    files = (
        ("line_detection", "line_detection", keys.line_detection, parquet.LINE_DETECTION.name),
        ("line_images", "line_extraction", keys.line_images, parquet.LINE_IMAGES.name),
        ("ocr_results", "ocr", keys.ocr_results, parquet.OCR_RESULTS.name),
    )
    return [
        VolumeFile(kind, stage, key, f"{keys.name}_{name}", _PARQUET_TYPE)
        for kind, stage, key, name in files
    ]


def list_reduce_files(keys: artifact_keys.VolumeKeys) -> list[VolumeFile]:
    """List the files that stage reduce can make."""
    combined = f"{keys.name}_{parquet.COMBINED.name}"
    return [
        VolumeFile("combined", "reduce", keys.combined, combined, _PARQUET_TYPE),
        *(
            VolumeFile(
                format_name,
                "reduce",
                keys.export(suffix),
                f"{keys.name}{suffix}",
                _MEDIA_TYPES.get(format_name, "application/zip"),
            )
            for format_name, suffix in SUFFIXES.items()
        ),
    ]


def list_job_files(keys: artifact_keys.VolumeKeys, config: Mapping[str, Any]) -> list[VolumeFile]:
    """List the files that a job with this config makes; others are left from an earlier config."""
    requested = artifact_keys.list_requested_files(config)
    return [
        *list_stage_files(keys),
        *(file for file in list_reduce_files(keys) if file.kind in requested),
    ]


def find_file(keys: artifact_keys.VolumeKeys, name: str) -> VolumeFile | None:
    """Find a file by its download name."""
    files = (*list_stage_files(keys), *list_reduce_files(keys))
    return next((file for file in files if file.name == name), None)


# Exports -----------------------------------------------------------------------------------------


async def export_volume(  # noqa: PLR0913  # which volume, in what form, to where
    bucket: artifacts.Bucket,
    keys: artifact_keys.VolumeKeys,
    format_name: str,
    target: Path,
    *,
    languages: Sequence[str] = (),
    use_combined: bool = False,
) -> None:
    """Export a volume to a file of this machine, which appears when it is complete.

    combined: export the texts of the reducer `combine`.
    """
    with bucket.scratch(keys.name) as scratch:
        path = scratch / "export"
        async with contextlib.AsyncExitStack() as stack:
            volume = await stack.enter_async_context(contents.open_contents(bucket, keys, scratch))
            texts = None
            if use_combined:
                texts = await stack.enter_async_context(
                    publish.open_parquet(bucket, parquet.COMBINED, keys.combined, scratch)
                )
                contents.require_same_source(texts, volume.texts)
            pages = volume.iterate_pages(texts)
            await concurrency.run_in_thread(
                write_pages, format_name, pages, path, name=keys.name, languages=languages
            )
        with path.open("rb") as file, base.replace_atomically(target, source=path) as out:
            shutil.copyfileobj(file, out)


def write_pages(
    format_name: str,
    pages: Iterable[contents.Page],
    target: Path,
    *,
    name: str,
    languages: Sequence[str] = (),
) -> None:
    """Write the pages of a volume to a file, with one page in memory at a time."""
    if format_name not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise errors.SettingsError(f"unknown format {format_name!r}; choose one of {known}")
    if format_name == "txt":
        read_pages = (page.to_read_page() for page in pages)
        exports.write(format_name, read_pages, target, target, name=name, languages=languages)
        return
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as archive:
        for page in pages:
            _add_page(archive, format_name, page, target.with_suffix(".page"), languages)


def _add_page(
    archive: zipfile.ZipFile,
    format_name: str,
    page: contents.Page,
    scratch: Path,
    languages: Sequence[str],
) -> None:
    """Add a page as a document with the name of its image."""
    image_path = page.detected.source_path or page.detected.image_name
    name = image_path.rpartition("/")[2]
    exports.write(
        format_name, [page.to_read_page()], scratch, scratch, name=name, languages=languages
    )
    entry = zipfile.ZipInfo(f"{_make_entry_name(page)}.xml", _FIXED_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, scratch.read_bytes())
    scratch.unlink()


def _make_entry_name(page: contents.Page) -> str:
    """Return a name that cannot leave the folder in which the archive is unpacked."""
    name = page.detected.image_name
    return name if paths.is_path(name) else f"{page.number}_{paths.make_safe_name(name)}"
