"""Measure the peak memory of each stage for a short and a long volume."""

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
SHORT_PAGES = 100
_SIZE = (1240, 1754)  # A4 at 150 dpi
_LINES = 30


def make_table(many: int) -> Table:
    """Compare the volumes; the engine is null, so that only the stages are measured."""
    table = Table(
        *("stage", f"{SHORT_PAGES} pages, MB", f"{many:,} pages, MB", "ratio"),
        title="Parent process and its largest child",
    )
    peaks = [_measure(count) for count in (SHORT_PAGES, many)]
    for name in stages.STAGES:
        short, long = (sum(peak[name]) for peak in peaks)
        table.add_row(name, f"{short / MB:.0f}", f"{long / MB:.0f}", f"{long / short:.2f}")
    return table


def _measure(count: int) -> dict[str, Sequence[int]]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        volume = sample_volume.make_volume(Path(folder), [], engine="null")
        _write_pages(volume.originals, count)
        peaks: dict[str, Sequence[int]] = {}
        for name in stages.STAGES:
            # A new process, so that its peak is that of this stage.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                peaks[name] = pool.apply(_run_stage, (volume, name))
        return peaks


def _write_pages(folder: Path, count: int) -> None:
    """Draw the first pages; the others are hard links to them."""
    for number in range(count):
        path = folder / f"{number:05d}.png"
        if number < SHORT_PAGES:
            _draw_page(number).save(path)
        else:
            path.hardlink_to(folder / f"{number % SHORT_PAGES:05d}.png")


def _draw_page(number: int) -> Image.Image:
    page = Image.new("L", _SIZE, 255)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=26)
    for line in range(_LINES):
        position = (100, 100 + 50 * line)
        draw.text(position, f"{sample_files.WORDS}: {number}, {line}", fill=0, font=font)
    return page


def _run_stage(volume: sample_volume.SampleVolume, name: str) -> tuple[int, int]:
    for _ in volume.run([name]):
        pass
    parent, child = (
        resource.getrusage(who).ru_maxrss * 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return parent, child
