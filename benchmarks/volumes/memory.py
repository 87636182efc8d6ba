"""Peaks of memory of each stage, for a short volume and a long one."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont
from rich.table import Table

from benchmarks import sample_files
from benchmarks.volumes import sample_volume
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Sequence


MB = 1e6
FEW = 100
_SIZE = (1240, 1754)  # A4 at 150 dpi
_LINES = 30


def table(many: int) -> Table:
    """Compare; the engine takes no time, so that it is the stages that are measured."""
    made = Table(
        *("stage", f"{FEW} pages, MB", f"{many:,} pages, MB", "ratio"),
        title="Our process and its hungriest child",
    )
    peaks = [_measure(count) for count in (FEW, many)]
    for name in stages.STAGES:
        few, lots = (sum(peak[name]) for peak in peaks)
        made.add_row(name, f"{few / MB:.0f}", f"{lots / MB:.0f}", f"{lots / few:.2f}")
    return made


def _measure(count: int) -> dict[str, Sequence[int]]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = sample_volume.bind(Path(folder), [], engine="null")
        _draw(volume.originals, count)
        found: dict[str, Sequence[int]] = {}
        for name in stages.STAGES:
            # In a process of its own, whose peak is then that of this stage.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found[name] = pool.apply(_peaks, (volume, name))
        return found


def _draw(folder: Path, count: int) -> None:
    """Draw some pages, and link to them by other names until there are enough."""
    for number in range(count):
        path = folder / f"{number:05d}.png"
        if number < FEW:
            _page(number).save(path)
        else:
            path.hardlink_to(folder / f"{number % FEW:05d}.png")


def _page(number: int) -> Image.Image:
    page = Image.new("L", _SIZE, 255)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=26)
    for line in range(_LINES):
        place = (100, 100 + 50 * line)
        draw.text(place, f"{sample_files.WORDS}: {number}, {line}", fill=0, font=font)
    return page


def _peaks(volume: sample_volume.Bound, name: str) -> tuple[int, int]:
    for _ in volume.run([name]):
        pass
    ours, child = (
        resource.getrusage(who).ru_maxrss * 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return ours, child
