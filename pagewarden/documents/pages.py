"""Pages to and from database rows; search headlines."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pagewarden.documents import claim, corrections
from pagewarden.ocr import pages

if TYPE_CHECKING:
    from collections.abc import Mapping

# A tenth of a pixel suffices, and halves the size and the time to save.
_COORDINATE_DIGITS = 1
_CONFIDENCE_DIGITS = 4


def to_saved_page(
    read_page: pages.ReadPage, *, page_count: int | None, language: str | None
) -> claim.Page:
    """Return a page in the form it is saved; parse_row is the inverse."""
    return claim.Page(
        number=read_page.number,
        text=read_page.text,
        status=_get_status(read_page),
        confidence=read_page.confidence,
        lines=[encode_line(line) for line in read_page.lines],
        width=read_page.width or None,
        height=read_page.height or None,
        error=_get_error(read_page),
        of=page_count,
        language=language,
        details={
            "source": read_page.source,
            "dpi": read_page.dpi,
            "rotation": read_page.rotation,
            "skew": read_page.skew,
            "engine": read_page.engine,
            "usage": dataclasses.asdict(read_page.usage),
        },
    )


def parse_row(row: Mapping[str, Any]) -> pages.ReadPage:
    """Return the page of a row of ocr_pages, or of page_texts, which includes corrections."""
    page = _parse_uncorrected_page(row)
    if row.get("version"):
        page = dataclasses.replace(page, source=pages.TextSource.PERSON, error=None)
    elif page.lines:
        return page
    return corrections.correct_page(page, row.get("text") or "")


def encode_line(line: pages.Line) -> dict[str, Any]:
    """Return a line in the form it is saved."""
    # dataclasses.asdict would copy every corner, which takes longer than reading a text layer.
    return {
        **_encode_text_and_quad(line),
        "words": [_encode_text_and_quad(word) for word in line.words],
        "block": line.block,
    }


def split_headline(headline: str) -> list[tuple[bool, str]]:
    """Split a headline of search_documents, with hits «like this», into (is hit, text) parts."""
    parts = []
    for piece in headline.split("«"):
        hit, mark, rest = piece.partition("»")
        parts += [(True, hit), (False, rest)] if mark else [(False, piece)]
    return [(is_hit, text) for is_hit, text in parts if text]


def _parse_uncorrected_page(row: Mapping[str, Any]) -> pages.ReadPage:
    return pages.ReadPage.from_json(
        {
            "usage": {},
            "dpi": 0.0,
            "source": pages.TextSource.FAILED
            if row["status"] == "failed"
            else pages.TextSource.OCR,
            **row["details"],
            "number": row["page_number"],
            "lines": row["lines"],
            "width": row["width"] or 0,
            "height": row["height"] or 0,
            "error": row["error"],
        }
    )


def _get_status(read_page: pages.ReadPage) -> str:
    if read_page.source is pages.TextSource.FAILED:
        return "failed"
    return "read" if read_page.lines else "blank"


def _get_error(read_page: pages.ReadPage) -> str | None:
    if read_page.source is not pages.TextSource.FAILED:
        return None
    return read_page.error or "the page could not be read"


def _encode_text_and_quad(item: pages.Line | pages.Word) -> dict[str, Any]:
    return {
        "text": item.text,
        "quad": [
            [round(x, _COORDINATE_DIGITS), round(y, _COORDINATE_DIGITS)] for x, y in item.quad
        ],
        "confidence": round(item.confidence, _CONFIDENCE_DIGITS),
    }
