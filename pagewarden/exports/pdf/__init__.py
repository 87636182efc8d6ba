"""Searchable PDF: the original with invisible text over its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.exports import base

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from pagewarden.ocr import pages


def write(out: BinaryIO, read_pages: Iterable[pages.ReadPage], document: base.Document) -> None:
    """Write clean pages one at a time."""
    from pagewarden.exports.pdf import searchable  # noqa: PLC0415  # slow to import

    searchable.write(out, read_pages, document)


FORMAT = base.Format(
    suffix=".pdf",
    media_type="application/pdf",
    write=write,
    order=3,
    needs_original=True,
    preload=("pagewarden.exports.pdf.searchable",),
)
