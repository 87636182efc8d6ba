"""A whole volume as text, ALTO or PAGE; the latter as archives with a file for each page."""

from __future__ import annotations

import contextlib
import shutil
import zipfile
from typing import TYPE_CHECKING

from pagewarden import concurrency, errors, exports
from pagewarden.exports import files as export_files
from pagewarden.files import paths
from pagewarden.volumes import contents
from pagewarden.volumes.artifacts import parquet, published

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pagewarden.volumes import artifacts, layout

SUFFIXES = {"txt": ".txt", "alto": ".alto.zip", "page": ".page.zip"}
"""How the file of each format ends."""

# The same pages are to give the same bytes on any day.
_NO_DATE = (1980, 1, 1, 0, 0, 0)


async def export(  # noqa: PLR0913  # which volume, in what form, to where
    bucket: artifacts.Bucket,
    keys: layout.Volume,
    format_name: str,
    target: Path,
    *,
    languages: Sequence[str] = (),
    combined: bool = False,
) -> None:
    """Write a volume that was read to a file of this machine, which appears when it is complete.

    With combined it is the text that the reducer of this name has made.
    """
    with bucket.scratch(keys.name) as scratch:
        made = scratch / "export"
        async with contextlib.AsyncExitStack() as stack:
            volume = await stack.enter_async_context(contents.opened(bucket, keys, scratch))
            texts = None
            if combined:
                file = published.opened(bucket, parquet.COMBINED, keys.combined, scratch)
                texts = await stack.enter_async_context(file)
                contents.require_made_of(texts, volume.texts)
            pages = volume.pages(texts)
            await concurrency.run_in_thread(
                write, format_name, pages, made, name=keys.name, languages=languages
            )
        with made.open("rb") as done, export_files.replacing(target, original=made) as out:
            shutil.copyfileobj(done, out)


def write(
    format_name: str,
    pages: Iterable[contents.Page],
    target: Path,
    *,
    name: str,
    languages: Sequence[str] = (),
) -> None:
    """Write the pages of a volume to a file, holding one at a time."""
    if format_name not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise errors.SettingsError(f"there is no format {format_name!r}; choose one of {known}")
    if format_name == "txt":
        read = (page.read() for page in pages)
        exports.write(format_name, read, target, target, name=name, languages=languages)
        return
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as archive:
        for page in pages:
            _add(archive, format_name, page, target.with_suffix(".page"), languages)


def _add(
    archive: zipfile.ZipFile,
    format_name: str,
    page: contents.Page,
    scratch: Path,
    languages: Sequence[str],
) -> None:
    """Write a page as a document of its own, named like its image."""
    original = page.detected.source_path or page.detected.image_name
    named = original.rpartition("/")[2]
    exports.write(format_name, [page.read()], scratch, scratch, name=named, languages=languages)
    entry = zipfile.ZipInfo(f"{_inside(page)}.xml", _NO_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, scratch.read_bytes())
    scratch.unlink()


def _inside(page: contents.Page) -> str:
    """Keep a name that was refused from leading out of the folder an archive is unpacked in."""
    name = page.detected.image_name
    return name if paths.is_path(name) else f"{page.number}_{paths.safe_name(name)}"
