"""The words for a file that cannot be read: which file, which page, why, and what to do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagewarden.reading.limits import Limits


def place(name: str, page: int | None = None) -> str:
    """Name a file, or a page of it, as the beginning of a message."""
    return name if page is None else f"{name}, page {page}"


@contextlib.contextmanager
def parsing(name: str, page: int | None = None) -> Iterator[None]:
    """Translate whatever a foreign parser raises into one of our errors."""
    try:
        yield
    except errors.PagewardenError:
        raise
    except MemoryError as error:
        raise errors.OutOfMemory(
            f"{place(name, page)}: reading it takes more memory than it may use. "
            "Scale it down, or raise the limit on memory."
        ) from error
    # A parser raises what its author did not think of: KeyError, struct.error, RecursionError…
    except Exception as error:
        detail = str(error)
        if "/" in detail:  # a path on our machine is nobody's business
            detail = ""
        raise damaged(name, page, detail) from error


def damaged(name: str, page: int | None = None, detail: str = "") -> errors.DamagedFile:
    """Make the error for a file, or one page of it, that is broken."""
    detail = " ".join(detail.split()).rstrip(".")
    reason = f"damaged ({detail})" if detail else "damaged"
    return errors.DamagedFile(
        f"{place(name, page)}: {reason}. "
        "Send it again, or save it anew with the program it comes from."
    )


def too_many_bytes(name: str, count: int, limits: Limits) -> errors.TooLarge:
    """Make the error for a file that is too long."""
    return errors.TooLarge(
        f"{name}: {count / 1e6:,.0f} MB, and the limit is {limits.file_bytes / 1e6:,.0f} MB. "
        "Split it, or raise the limit on file size."
    )


def too_many_pages(name: str, count: int, limits: Limits) -> errors.TooLarge:
    """Make the error for a document of too many pages; count may be the least it has."""
    return errors.TooLarge(
        f"{name}: {count:,} pages or more, and the limit is {limits.pages:,}. "
        "Split it, or raise the limit on pages."
    )


def too_many_pixels(name: str, page: int | None, size: str, limits: Limits) -> errors.TooLarge:
    """Make the error for an image beyond the hard limit; size is how large it is, in words."""
    return errors.TooLarge(
        f"{place(name, page)}: {size}, and the limit is {limits.pixels / 1e6:,.0f} megapixels. "
        "Scale it down, or raise the limit on pixels."
    )


def too_long(name: str, page: int | None, size: str, limits: Limits) -> errors.TooLarge:
    """Make the error for an image that is a strip; size is how large it is, in words."""
    return errors.TooLarge(
        f"{place(name, page)}: {size}, and no side may be longer than {limits.longest_side:,}. "
        "Cut it into pages."
    )
