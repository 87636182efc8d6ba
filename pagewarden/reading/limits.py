"""How much one document may cost: the one place where every limit and its default stands."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may cost before it is refused.

    file_bytes: size of the file.
    pages: pages of a document.
    pixels: of one image, as the file states it, before anything is decoded; beyond it the page is
        refused. The default lets photos of 200 megapixels through.
    working_pixels: larger images, and larger pages of a PDF, are scaled down to this and read.
        The default is A4 at 500 dpi.
    longest_side: of a page image, in pixels; longer images are refused. The default is the most a
        JPEG can have.
    memory_bytes: address space of the process that parses and reads.
    page_cpu_seconds, page_seconds: for one page, on the processor's clock and on the wall's.
    document_seconds: for the whole document, on the wall's clock.
    """

    file_bytes: int = 1024 * _MIB
    pages: int = 5_000
    pixels: int = 250_000_000
    working_pixels: int = 25_000_000
    longest_side: int = 65_500
    memory_bytes: int = 3072 * _MIB
    page_cpu_seconds: float = 120.0
    page_seconds: float = 180.0
    document_seconds: float = 3_600.0
