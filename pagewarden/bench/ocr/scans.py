"""Scanned PDFs of a corpus: one of each collection, every page an image and nothing else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import img2pdf  # type: ignore[import-untyped]  # it ships no types
import pikepdf
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pagewarden.bench.ocr import corpus

# For images that do not say, or say what cannot be.
_RESOLUTION = 300.0
_LEAST_RESOLUTION = 70.0

# img2pdf keeps these as they are; PDF has no transparency within an image.
_KEPT = ("1", "L", "RGB")


def make(pages: Sequence[corpus.Page], target: Path) -> None:
    """Write the pages into one PDF."""
    with pikepdf.new() as scan:
        for page in pages:
            with pikepdf.open(io.BytesIO(_scan(page.path))) as single:
                scan.pages.extend(single.pages)
        scan.save(target)


def _scan(path: Path) -> bytes:
    with Image.open(path) as image:
        stated = float(image.info.get("dpi", (0,))[0])
        resolution = stated if stated >= _LEAST_RESOLUTION else _RESOLUTION
        content = path.read_bytes() if image.mode in _KEPT else _opaque(image)
    layout = img2pdf.get_fixed_dpi_layout_fun((resolution, resolution))
    return bytes(img2pdf.convert(content, layout_fun=layout))


def _opaque(image: Image.Image) -> bytes:
    """Lay a transparent image on white paper."""
    colours = image.convert("RGBA")
    paper = Image.new("RGBA", colours.size, "white")
    paper.alpha_composite(colours)
    written = io.BytesIO()
    paper.convert("RGB").save(written, "PNG")
    return written.getvalue()
