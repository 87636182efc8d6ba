"""Pages as reading makes them, and as the database keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagewarden.documents import claims
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT_AS_COLUMNS = {"number", "lines", "width", "height", "error"}


def to_page(read: pages.ReadPage, *, of: int | None, language: str | None) -> claims.Page:
    """Give a page the form it is saved in; nothing that from_row needs is lost."""
    whole = read.as_json()
    return claims.Page(
        number=read.number,
        text=read.text,
        status=_status(read),
        confidence=read.confidence,
        lines=whole["lines"],
        width=read.width or None,
        height=read.height or None,
        error=_reason(read),
        of=of,
        language=language,
        details={name: value for name, value in whole.items() if name not in _KEPT_AS_COLUMNS},
    )


def from_row(row: Mapping[str, Any]) -> pages.ReadPage:
    """Make the page again from a row of ocr_pages."""
    return pages.ReadPage.from_json(
        {
            "usage": {},
            "dpi": 0.0,
            "source": pages.Source.FAILED if row["status"] == "failed" else pages.Source.OCR,
            **row["details"],
            "number": row["page_number"],
            "lines": row["lines"],
            "width": row["width"] or 0,
            "height": row["height"] or 0,
            "error": row["error"],
        }
    )


def _status(read: pages.ReadPage) -> str:
    if read.source is pages.Source.FAILED:
        return "failed"
    return "read" if read.lines else "blank"


def _reason(read: pages.ReadPage) -> str | None:
    if read.source is not pages.Source.FAILED:
        return None
    return read.error or "it could not be read"
