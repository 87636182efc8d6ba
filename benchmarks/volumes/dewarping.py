"""What is read of curved and skewed pages, with dewarping and without."""

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
from pagewarden.reading import turning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def table(pages: Sequence[corpus.Page]) -> Table:
    """Bend all pages whose text is in order in each of the ways, and read them."""
    ordered = [page for page in pages if page.measure is corpus.Measure.ORDER]
    made = Table(
        *("pages", "CER without dewarping", "with", "pages dewarped"),
        title=f"{len(ordered)} pages, bent by a script",
    )
    for bend in BENDS:
        cers, dewarped = [], 0
        for use_tps in (False, True):
            scores, applied = _read(ordered, bend, use_tps=use_tps)
            cers.append(f"{scoring.total(scores).cer:.2%}")
            dewarped = applied
        made.add_row(bend.name, *cers, str(dewarped))
    return made


def _read(
    pages: Sequence[corpus.Page], bend: Bend, *, use_tps: bool
) -> tuple[list[scoring.Score], int]:
    scores, dewarped = [], 0
    for _, group in sample_volume.by_collection(pages):
        with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
            given = {"language": group[0].language, "use_tps": use_tps}
            volume = sample_volume.bind(Path(folder), [], **given)
            for number, page in enumerate(group):
                write_bent(page.path, volume.originals / f"{number:04d}.png", bend)
            for name, done, _ in volume.run(sample_volume.READ):
                dewarped += int(done.metrics["dewarped"]) if name == sample_volume.READ[0] else 0
            texts = volume.texts()
            scores += [scoring.score(page, text) for page, text in zip(group, texts, strict=True)]
    return scores, dewarped


# Bent pages ---------------------------------------------------------------------------------------
# Pages as cameras see them in thick books: curved towards the spine, and at a slant.


@dataclass(frozen=True, slots=True)
class Bend:
    """How a page is bent: by this share of its width, and at a slant of so many degrees."""

    name: str
    depth: float = 0.0
    skew: float = 0.0


BENDS = (
    Bend("as it is"),
    Bend("skewed by 4°", skew=4.0),
    Bend("slightly curved", depth=0.01),
    Bend("curved", depth=0.02),
    Bend("curved, skewed by 4°", depth=0.02, skew=4.0),
    Bend("strongly curved", depth=0.035),
)


def write_bent(source: Path, target: Path, bend: Bend) -> None:
    """Bend a page and save it without loss."""
    with Image.open(source) as image:
        upright = ImageOps.exif_transpose(image)
        pixels = np.asarray(upright if upright.mode in {"L", "RGB"} else upright.convert("L"))
    Image.fromarray(bent(pixels, bend)).save(target, compress_level=1)


def bent(pixels: NDArray[np.uint8], bend: Bend) -> NDArray[np.uint8]:
    """Bend a page: most near its right edge, and less towards its foot."""
    height, width = pixels.shape[:2]
    curved = pixels
    if bend.depth:
        x = np.linspace(0, 1, width, dtype=np.float32)[None, :]
        y = np.linspace(0, 1, height, dtype=np.float32)[:, None]
        # A sheet that rises from the left and falls steeply into the spine on the right.
        shape = np.sin(np.pi * x**1.6)
        down = np.float32(bend.depth * width) * shape * (1 - np.float32(0.5) * y)
        rows = np.arange(height, dtype=np.float32)[:, None] + down
        columns = np.broadcast_to(np.arange(width, dtype=np.float32)[None, :], rows.shape)
        curved = np.asarray(
            cv2.remap(pixels, columns, rows, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        )
    return turning.level(curved, -bend.skew)
