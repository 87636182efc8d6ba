"""Load a corpus, a folder of pages with ground truth and a MANIFEST.tsv; make scanned PDFs."""

from __future__ import annotations

import csv
import enum
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import img2pdf  # type: ignore[import-untyped]  # it ships no types
import pikepdf
from PIL import Image

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


MANIFEST = "MANIFEST.tsv"

# Collections whose name is not a language code of Tesseract.
_LANGUAGES = {"deu_frak": "frk"}


class Measure(enum.StrEnum):
    """How a page is scored: as ordered text, or as a bag of words if the order is ambiguous."""

    ORDER = "order"
    BAG = "bag"


@dataclass(frozen=True, slots=True)
class Page:
    """An image and its ground truth; `joined` if words hyphenated at line ends are joined in it."""

    path: Path
    truth: str
    collection: str
    language: str
    document: str
    measure: Measure
    joined: bool

    @property
    def name(self) -> str:
        """Return the name of the page in its corpus."""
        return f"{self.collection}/{self.path.name}"


def load(folder: Path) -> list[Page]:
    """Load all pages of the manifest with their ground truth."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise errors.SettingsError(
            f"{folder} is not a corpus: it has no {MANIFEST}; pass another folder with --corpus"
        )
    with manifest.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [_parse_row(folder, row) for row in rows]


def _parse_row(folder: Path, row: Mapping[str, str]) -> Page:
    collection, hint = row["file"].split("/")[0], row["metric_hint"]
    return Page(
        path=folder / row["file"],
        truth=(folder / row["gt"]).read_text(encoding="utf-8"),
        collection=collection,
        language=_LANGUAGES.get(collection, collection),
        document=row["doc_id"],
        measure=Measure.BAG if hint.startswith("bow") else Measure.ORDER,
        joined="de-hyphenation" in hint,
    )


def sample(pages: Sequence[Page], count: int) -> list[Page]:
    """Choose a number of pages evenly over all collections, always the same ones."""
    if count >= len(pages):
        return list(pages)
    return [pages[len(pages) * number // count] for number in range(count)]


# Scanned PDFs -------------------------------------------------------------------------------------
# One PDF per collection, whose pages are images without text.


# For images without resolution, or with an implausible one.
_RESOLUTION = 300.0
_MIN_RESOLUTION = 70.0

# Modes that img2pdf embeds unchanged; images in a PDF have no alpha channel.
_EMBEDDABLE = ("1", "L", "RGB")


def make_scan(pages: Sequence[Page], target: Path) -> None:
    """Write pages to one PDF."""
    with pikepdf.new() as scan:
        for page in pages:
            with pikepdf.open(io.BytesIO(_make_single_page(page.path))) as single:
                scan.pages.extend(single.pages)
        scan.save(target)


def _make_single_page(path: Path) -> bytes:
    with Image.open(path) as image:
        stated = float(image.info.get("dpi", (0,))[0])
        resolution = stated if stated >= _MIN_RESOLUTION else _RESOLUTION
        content = path.read_bytes() if image.mode in _EMBEDDABLE else _flatten(image)
    layout = img2pdf.get_fixed_dpi_layout_fun((resolution, resolution))
    return bytes(img2pdf.convert(content, layout_fun=layout))


def _flatten(image: Image.Image) -> bytes:
    """Blend a transparent image with a white background."""
    with_alpha = image.convert("RGBA")
    background = Image.new("RGBA", with_alpha.size, "white")
    background.alpha_composite(with_alpha)
    buffer = io.BytesIO()
    background.convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()
