r"""Text: every page ends with a newline, a form feed stands between pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

    from pagewarden.exports import document
    from pagewarden.reading import pages


def write(
    out: BinaryIO, read_pages: Iterable[pages.ReadPage], _document: document.Document
) -> None:
    """Write tidied pages; one without text is empty between its form feeds."""
    for count, page in enumerate(read_pages):
        text = f"{page.text}\n" if page.lines else ""
        out.write(f"\f{text}".encode() if count else text.encode())
