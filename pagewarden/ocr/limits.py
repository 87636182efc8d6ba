"""Limits per document, and the errors for files that exceed them or are damaged.

Every error message names the file and the page, the reason, and what the user can do.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum resources for reading a document; a larger document is rejected.

    file_bytes: size of the file.
    pages: pages of a document.
    pixels: pixels of one image, as its header states them; a larger image is rejected before it is
        decoded. The default accepts photos of 200 megapixels.
    working_pixels: larger images and PDF pages are scaled down to this. The default is A4 at
        500 dpi.
    longest_side: of a page image, in pixels; longer images are rejected. The default is the maximum
        of JPEG.
    memory_bytes: address space of the process that parses and reads.
    page_cpu_seconds, page_seconds: CPU time and wall-clock time for one page.
    document_seconds: wall-clock time for the whole document.
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


def describe_location(name: str, page: int | None = None) -> str:
    """Return the beginning of an error message: the file, or a page of it."""
    return name if page is None else f"{name}, page {page}"


@contextlib.contextmanager
def translate_parser_errors(name: str, page: int | None = None) -> Iterator[None]:
    """Translate any error of a third-party parser into one of Pagewarden."""
    try:
        yield
    except errors.PagewardenError:
        raise
    except MemoryError as error:
        raise errors.OutOfMemory(
            f"{describe_location(name, page)}: reading it exceeds the memory limit. "
            "Scale it down, or raise the limit."
        ) from error
    # Parsers raise anything on damaged input: KeyError, struct.error, RecursionError…
    except Exception as error:
        detail = str(error)
        if "/" in detail:  # do not reveal paths of this machine
            detail = ""
        raise damaged_file_error(name, page, detail) from error


def damaged_file_error(name: str, page: int | None = None, detail: str = "") -> errors.DamagedFile:
    """Return the error for a damaged file or page."""
    detail = " ".join(detail.split()).rstrip(".")
    reason = f"damaged ({detail})" if detail else "damaged"
    return errors.DamagedFile(
        f"{describe_location(name, page)}: {reason}. "
        "Send it again, or save it again in the program that created it."
    )


def file_too_large_error(name: str, count: int, limits: Limits) -> errors.DocumentTooLarge:
    """Return the error for a file that has too many bytes."""
    return errors.DocumentTooLarge(
        f"{name}: {count / 1e6:,.0f} MB exceeds the limit of {limits.file_bytes / 1e6:,.0f} MB. "
        "Split it, or raise the file size limit."
    )


def too_many_pages_error(name: str, count: int, limits: Limits) -> errors.DocumentTooLarge:
    """Return the error for a document of too many pages; count may be a lower bound."""
    return errors.DocumentTooLarge(
        f"{name}: {count:,} or more pages exceed the limit of {limits.pages:,}. "
        "Split it, or raise the page limit."
    )


def too_many_pixels_error(
    name: str, page: int | None, size: str, limits: Limits
) -> errors.DocumentTooLarge:
    """Return the error for an image with too many pixels; size is part of the message."""
    return errors.DocumentTooLarge(
        f"{describe_location(name, page)}: {size}; the limit is {limits.pixels / 1e6:,.0f} "
        "megapixels. "
        "Scale it down, or raise the pixel limit."
    )


def side_too_long_error(
    name: str, page: int | None, size: str, limits: Limits
) -> errors.DocumentTooLarge:
    """Return the error for an image with a side that is too long; size is part of the message."""
    return errors.DocumentTooLarge(
        f"{describe_location(name, page)}: {size}, but no side may exceed {limits.longest_side:,}. "
        "Split it into pages."
    )
