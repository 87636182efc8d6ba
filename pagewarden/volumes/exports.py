"""A whole volume as text, ALTO or PAGE; the latter as archives with a file for each page."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from pagewarden import exports

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pagewarden.volumes import contents

SUFFIXES = {"txt": ".txt", "alto": ".alto.zip", "page": ".page.zip"}
"""How the file of each format ends."""

# The same pages are to give the same bytes on any day.
_NO_DATE = (1980, 1, 1, 0, 0, 0)


def write(
    format_name: str,
    pages: Iterable[contents.Page],
    target: Path,
    *,
    name: str,
    languages: Sequence[str] = (),
) -> None:
    """Write the pages of a volume to a file, holding one at a time."""
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
    entry = zipfile.ZipInfo(f"{page.detected.image_name}.xml", _NO_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, scratch.read_bytes())
    scratch.unlink()
