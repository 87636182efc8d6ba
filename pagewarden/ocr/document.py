"""Open any supported file; every file type gives the same kinds of document and page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pagewarden import errors
from pagewarden.ocr import file_types
from pagewarden.ocr.images import document
from pagewarden.ocr.limits import file_too_large_error
from pagewarden.ocr.pdf.document import PdfDocument

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.ocr import pages
    from pagewarden.ocr.engines import base
    from pagewarden.ocr.limits import Limits


class SourcePage(Protocol):
    """A page; width, height (pixels) and dpi are those of the image that `render` returns.

    original is the size of the image in the file, before it is scaled down.
    """

    width: int
    height: int
    dpi: float
    original: tuple[int, int]

    def read_text_layer(self) -> tuple[pages.Line, ...] | None:
        """Return the lines of a trusted text layer, in pixels of the page image, or None."""
        ...

    def render(self) -> base.PageImage:
        """Return the page image."""
        ...


class Document(Protocol):
    """An open file; kind is its type as `file_types.detect` returns it."""

    kind: str

    @property
    def page_count(self) -> int:
        """The number of pages."""
        ...

    def open_page(self, number: int) -> SourcePage:
        """Open a page, counted from 1; this may close the previous page."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_document(
    path: Path, limits: Limits, *, password: str | None = None, name: str | None = None
) -> Document:
    """Open a file by its content; name identifies it in messages, by default the file name."""
    name = name or path.name
    head = _read_head(path, limits, name)
    kind = file_types.detect(head)
    if kind is None:
        raise errors.UnsupportedFile(
            f"{name}: this is {file_types.describe(head)}. "
            "Convert it to PDF, JPEG, JPEG 2000, PNG, WebP, TIFF, HEIC, AVIF, BMP or GIF."
        )
    if kind == "pdf":
        return PdfDocument(path, limits, name=name, password=password)
    return document.ImageDocument(path, kind, limits, name)


def _read_head(path: Path, limits: Limits, name: str) -> bytes:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(file_types.HEAD_BYTES)
    except OSError as error:
        raise errors.UnreadableFile(
            f"{name}: the file cannot be read ({error.strerror}). Check its path and permissions."
        ) from error
    if not head:
        raise errors.EmptyFile(f"{name}: the file is empty. Send it again.")
    if size > limits.file_bytes:
        raise file_too_large_error(name, size, limits)
    return head
