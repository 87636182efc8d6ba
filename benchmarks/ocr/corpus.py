"""Pages and their true text, as a folder with a MANIFEST.tsv describes them; scans of them."""

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

# Collections whose name is not itself a language of Tesseract.
_LANGUAGES = {"deu_frak": "frk"}


class Measure(enum.StrEnum):
    """How a page is scored: in its order, or as a bag of words where the order is open."""

    ORDER = "order"
    BAG = "bag"


@dataclass(frozen=True, slots=True)
class Page:
    """An image and the text that stands on it.

    joined says that the truth has its words put together again where a line broke them.
    """

    path: Path
    truth: str
    collection: str
    language: str
    document: str
    measure: Measure
    joined: bool

    @property
    def name(self) -> str:
        """Name the page within its corpus."""
        return f"{self.collection}/{self.path.name}"


def load(folder: Path) -> list[Page]:
    """Read the manifest and the truth of every page in it."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise errors.SettingsError(
            f"{folder} is not a corpus: it has no {MANIFEST}; give another folder with --corpus"
        )
    with manifest.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [_page(folder, row) for row in rows]


def _page(folder: Path, row: Mapping[str, str]) -> Page:
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
    """Choose so many pages evenly over all collections, the same ones every time."""
    if count >= len(pages):
        return list(pages)
    return [pages[len(pages) * turn // count] for turn in range(count)]


# Scanned PDFs -------------------------------------------------------------------------------------
# Scanned PDFs of a corpus: one of each collection, every page an image and nothing else.


# For images that do not say, or say what cannot be.
_RESOLUTION = 300.0
_LEAST_RESOLUTION = 70.0

# img2pdf keeps these as they are; PDF has no transparency within an image.
_KEPT = ("1", "L", "RGB")


def make_scan(pages: Sequence[Page], target: Path) -> None:
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
