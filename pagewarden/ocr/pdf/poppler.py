"""Fallback for PDFs: the programs of poppler, if they are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pdf2image
from pdf2image import exceptions

from pagewarden.ocr.images import pixels

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_SECONDS = 60
_FAILURES = (
    exceptions.PDFInfoNotInstalledError,
    exceptions.PDFPageCountError,
    exceptions.PDFPopplerTimeoutError,
    OSError,
    ValueError,
)


def count_pages(path: Path, password: str | None) -> int:
    """Count the pages; 0 if poppler fails or is not installed."""
    try:
        info = pdf2image.pdfinfo_from_path(str(path.absolute()), password or "", timeout=_SECONDS)
        return int(info["Pages"])
    except _FAILURES:
        return 0


def get_page_size(path: Path, number: int, password: str | None) -> tuple[float, float] | None:
    """Return width and height of a page in points, before rotation."""
    try:
        info = pdf2image.pdfinfo_from_path(
            str(path.absolute()),
            password or "",
            timeout=_SECONDS,
            first_page=number,
            last_page=number,
        )
        words = info[f"Page {number:4d} size"].split()
        return float(words[0]), float(words[2])
    except (*_FAILURES, KeyError, IndexError):
        return None


def render(path: Path, number: int, dpi: int, password: str | None) -> NDArray[np.uint8] | None:
    """Render a page, counted from 1; None if poppler fails or the page is blank."""
    try:
        images = pdf2image.convert_from_path(
            str(path.absolute()),
            dpi,
            first_page=number,
            last_page=number,
            userpw=password or "",
            timeout=_SECONDS,
        )
    except _FAILURES:
        return None
    if not images:
        return None
    rendered = pixels.drop_redundant_colours(np.asarray(images[0].convert("RGB")))
    return None if pixels.is_blank(rendered) else rendered
