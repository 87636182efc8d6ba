"""Compare the text of curved and skewed pages with and without dewarping."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from PIL import Image, ImageOps
from rich.table import Table

from benchmarks.ocr import corpus, scoring
from benchmarks.volumes import sample_volume
from pagewarden.ocr.images.pixels import deskew

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def make_table(pages: Sequence[corpus.Page]) -> Table:
    """Bend all pages with ordered text in each of the ways, and read them."""
    ordered = [page for page in pages if page.measure is corpus.Measure.ORDER]
    table = Table(
        *("pages", "CER without dewarping", "with", "pages dewarped"),
        title=f"{len(ordered)} artificially bent pages",
    )
    for bend in BENDS:
        cers, dewarped = [], 0
        for use_tps in (False, True):
            scores, applied = _read(ordered, bend, use_tps=use_tps)
            cers.append(f"{scoring.total(scores).cer:.2%}")
            dewarped = applied
        table.add_row(bend.name, *cers, str(dewarped))
    return table


def _read(
    pages: Sequence[corpus.Page], bend: Bend, *, use_tps: bool
) -> tuple[list[scoring.Score], int]:
    scores, dewarped = [], 0
    for _, group in sample_volume.group_by_collection(pages):
        with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
            config = {"language": group[0].language, "use_tps": use_tps}
            volume = sample_volume.make_volume(Path(folder), [], **config)
            for number, page in enumerate(group):
                write_bent(page.path, volume.originals / f"{number:04d}.png", bend)
            for name, result, _ in volume.run(sample_volume.READ):
                dewarped += int(result.metrics["dewarped"]) if name == sample_volume.READ[0] else 0
            texts = volume.texts()
            scores += [scoring.score(page, text) for page, text in zip(group, texts, strict=True)]
    return scores, dewarped


# Bent pages ---------------------------------------------------------------------------------------
# Simulated photographs of thick books: pages curved towards the spine, and skewed.


@dataclass(frozen=True, slots=True)
class Bend:
    """A distortion: depth of the curve as a share of the page width, skew in degrees."""

    name: str
    depth: float = 0.0
    skew: float = 0.0


BENDS = (
    Bend("unchanged"),
    Bend("skewed by 4°", skew=4.0),
    Bend("slightly curved", depth=0.01),
    Bend("curved", depth=0.02),
    Bend("curved, skewed by 4°", depth=0.02, skew=4.0),
    Bend("strongly curved", depth=0.035),
)


def write_bent(source: Path, target: Path, bend: Bend) -> None:
    """Bend a page and save it losslessly."""
    with Image.open(source) as image:
        upright = ImageOps.exif_transpose(image)
        pixels = np.asarray(upright if upright.mode in {"L", "RGB"} else upright.convert("L"))
    Image.fromarray(bend_page(pixels, bend)).save(target, compress_level=1)


def bend_page(pixels: NDArray[np.uint8], bend: Bend) -> NDArray[np.uint8]:
    """Bend a page: most near the right edge, less towards the bottom."""
    height, width = pixels.shape[:2]
    curved = pixels
    if bend.depth:
        x = np.linspace(0, 1, width, dtype=np.float32)[None, :]
        y = np.linspace(0, 1, height, dtype=np.float32)[:, None]
        # A sheet that rises from the left and drops steeply into the spine on the right.
        shape = np.sin(np.pi * x**1.6)
        down = np.float32(bend.depth * width) * shape * (1 - np.float32(0.5) * y)
        rows = np.arange(height, dtype=np.float32)[:, None] + down
        columns = np.broadcast_to(np.arange(width, dtype=np.float32)[None, :], rows.shape)
        curved = np.asarray(
            cv2.remap(pixels, columns, rows, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        )
    return deskew(curved, -bend.skew)
