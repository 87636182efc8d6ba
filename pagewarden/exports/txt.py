"""Plain text: each page ends with a newline, and form feeds separate pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.exports import base

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from pagewarden.ocr import pages


def write(out: BinaryIO, read_pages: Iterable[pages.ReadPage], _document: base.Document) -> None:
    """Write clean pages; a page without text is empty."""
    for count, page in enumerate(read_pages):
        text = f"{page.text}\n" if page.lines else ""
        out.write(f"\f{text}".encode() if count else text.encode())


FORMAT = base.Format(suffix=".txt", media_type="text/plain", write=write, order=1)
