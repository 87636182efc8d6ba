"""Open any document we read: one kind of page, whatever the file is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pagewarden import errors
from pagewarden.reading import formats, images, pdf, trouble

if TYPE_CHECKING:
    from pathlib import Path

    from pagewarden.reading import engine, pages
    from pagewarden.reading.limits import Limits


class PageSource(Protocol):
    """One page; width, height (pixels) and dpi are those of the image that render gives.

    original is width and height of the picture in the file: more, where that is enormous.
    """

    width: int
    height: int
    dpi: float
    original: tuple[int, int]

    def layer(self) -> tuple[pages.Line, ...] | None:
        """Give the lines of a sound text layer, in pixels of the page image; None without one."""
        ...

    def render(self) -> engine.PageImage:
        """Make the page image."""
        ...


class Document(Protocol):
    """A file that was recognised and opened; kind is one of those formats.detect names."""

    kind: str

    @property
    def page_count(self) -> int:
        """Count the pages."""
        ...

    def page(self, number: int) -> PageSource:
        """Open a page, counted from 1; what was opened before it may be closed."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def open_document(
    path: Path, limits: Limits, *, password: str | None = None, name: str | None = None
) -> Document:
    """Open a file by what is in it; name stands for it in messages, by default its file name."""
    name = name or path.name
    head = _read_head(path, limits, name)
    kind = formats.detect(head)
    if kind is None:
        raise errors.UnsupportedFile(
            f"{name}: this is {formats.describe(head)}. "
            "PDF, JPEG, JPEG 2000, PNG, WebP, TIFF, HEIC, AVIF, BMP and GIF are read: "
            "convert it to one of them."
        )
    if kind == "pdf":
        return pdf.PdfDocument(path, limits, name=name, password=password)
    return images.ImageDocument(path, kind, limits, name)


def _read_head(path: Path, limits: Limits, name: str) -> bytes:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(formats.HEAD_BYTES)
    except OSError as error:
        raise errors.UnreadableFile(
            f"{name}: not a file that can be read ({error.strerror}). Check its path and rights."
        ) from error
    if not head:
        raise errors.EmptyFile(f"{name}: the file is empty. Send it again.")
    if size > limits.file_bytes:
        raise trouble.too_many_bytes(name, size, limits)
    return head
