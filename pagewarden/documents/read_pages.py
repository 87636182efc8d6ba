"""Pages as reading makes them, and as the database keeps them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pagewarden.documents import claims, corrections
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Mapping

# Places are kept to a tenth of a pixel: half the bytes, and half the time to save them.
_DIGITS_OF_PLACE = 1
_DIGITS_OF_CONFIDENCE = 4


def to_page(read: pages.ReadPage, *, of: int | None, language: str | None) -> claims.Page:
    """Give a page the form it is saved in; from_row makes it again."""
    return claims.Page(
        number=read.number,
        text=read.text,
        status=_status(read),
        confidence=read.confidence,
        lines=[line_row(line) for line in read.lines],
        width=read.width or None,
        height=read.height or None,
        error=_reason(read),
        of=of,
        language=language,
        details={
            "source": read.source,
            "dpi": read.dpi,
            "rotation": read.rotation,
            "skew": read.skew,
            "engine": read.engine,
            "usage": dataclasses.asdict(read.usage),
        },
    )


def from_row(row: Mapping[str, Any]) -> pages.ReadPage:
    """Make the page again from a row of ocr_pages, or of page_texts with what people made of it."""
    page = _read(row)
    if row.get("version"):
        page = dataclasses.replace(page, source=pages.Source.PERSON, error=None)
    elif page.lines:
        return page
    return corrections.corrected(page, row.get("text") or "")


def _read(row: Mapping[str, Any]) -> pages.ReadPage:
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


def line_row(line: pages.Line) -> dict[str, Any]:
    """Give a line the form it is saved in."""
    # Not dataclasses.asdict: that copies every corner, and takes longer than reading a text layer.
    return {
        **_placed(line),
        "words": [_placed(word) for word in line.words],
        "block": line.block,
    }


def _placed(what: pages.Line | pages.Word) -> dict[str, Any]:
    return {
        "text": what.text,
        "quad": [[round(x, _DIGITS_OF_PLACE), round(y, _DIGITS_OF_PLACE)] for x, y in what.quad],
        "confidence": round(what.confidence, _DIGITS_OF_CONFIDENCE),
    }
