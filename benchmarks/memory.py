"""python -m benchmarks memory: peak memory of a long document against a short one."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import sample_files
from pagewarden.ocr import engines, reader

MB = 1e6
SHORT_PAGES = 10
A4_AT_200_DPI = (1654, 2339)
LINES = 24

out = Console(highlight=False)


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak memory of the parent process and of its largest child, in bytes."""

    parent: int
    child: int

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.parent + self.child


def command(
    *,
    pages: Annotated[int, typer.Option(min=SHORT_PAGES, help="Pages of the long scan.")] = 500,
    engine: Annotated[str, typer.Option(help="OCR engine; null reads nothing.")] = "null",
) -> None:
    """Compare the peak memory for a scan of 10 pages and a long one."""
    engines.find_engine(engine)
    table = Table("pages", "parent, MB", "largest child, MB", "both, MB", title=engine)
    peaks = []
    for count in (SHORT_PAGES, pages):
        peaks.append(_measure(count, engine))
        numbers = (peaks[-1].parent, peaks[-1].child, peaks[-1].total)
        table.add_row(str(count), *(f"{number / MB:.0f}" for number in numbers))
    out.print(table)
    out.print(f"{peaks[1].total / peaks[0].total:.2f} times as much memory")


def _measure(count: int, engine: str) -> Peak:
    """Read a scan in a new process, so that the peak is that of this document."""
    with (
        tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder,
        Progress(console=out, transient=True) as progress,
        multiprocessing.get_context("spawn").Pool(1) as pool,
    ):
        task = progress.add_task(f"{count} pages", total=None)
        path = Path(folder, "scan.pdf")
        _write_scan(path, count)
        peak = pool.apply(_read, (path, engine))
        progress.remove_task(task)
    return peak


def _write_scan(path: Path, count: int) -> None:
    """Write a PDF of different pages, with one page in memory at a time."""
    for number in range(count):
        _draw_page(number).save(path, "PDF", resolution=200, append=number > 0)


def _draw_page(number: int) -> Image.Image:
    page = Image.new("L", A4_AT_200_DPI, 255)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=36)
    for line in range(LINES):
        draw.text(
            (150, 150 + 80 * line), f"{sample_files.WORDS}: {number}, {line}", fill=0, font=font
        )
    return page


def _read(path: Path, engine: str) -> Peak:
    child = asyncio.run(_measure_peak_of_children(path, engine))
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Peak(parent, child)


async def _measure_peak_of_children(path: Path, engine: str) -> int:
    async with reader.Reader(engine=engine) as open_reader:
        async with contextlib.aclosing(open_reader.read(path)) as found:
            async for _ in found:
                pass
        return open_reader.peak_memory
