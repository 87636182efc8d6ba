"""python -m benchmarks memory: what a long document takes beside a short one."""

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
from pagewarden.reading import engines, reader

MB = 1e6
SHORT = 10
A4_AT_200_DPI = (1654, 2339)
LINES = 24

out = Console(highlight=False)


@dataclass(frozen=True, slots=True)
class Peak:
    """The most memory that our process had, and the hungriest of its children, in bytes."""

    parent: int
    child: int

    @property
    def total(self) -> int:
        """Add them up."""
        return self.parent + self.child


def command(
    *,
    pages: Annotated[int, typer.Option(min=SHORT, help="Pages of the long scan.")] = 500,
    engine: Annotated[str, typer.Option(help="What reads them; null takes no time.")] = "null",
) -> None:
    """Read a scan of 10 pages and a long one, and compare the peaks of memory."""
    engines.find(engine)
    table = Table("pages", "our process, MB", "hungriest child, MB", "both, MB", title=engine)
    peaks = []
    for count in (SHORT, pages):
        peaks.append(_measure(count, engine))
        numbers = (peaks[-1].parent, peaks[-1].child, peaks[-1].total)
        table.add_row(str(count), *(f"{number / MB:.0f}" for number in numbers))
    out.print(table)
    out.print(f"{peaks[1].total / peaks[0].total:.2f} times as much")


def _measure(count: int, engine: str) -> Peak:
    """Read in a process of its own, whose peak is then of this document."""
    with (
        tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder,
        Progress(console=out, transient=True) as progress,
        multiprocessing.get_context("spawn").Pool(1) as pool,
    ):
        task = progress.add_task(f"{count} pages", total=None)
        path = Path(folder, "scan.pdf")
        _write(path, count)
        found = pool.apply(_read, (path, engine))
        progress.remove_task(task)
    return found


def _write(path: Path, count: int) -> None:
    """Draw so many pages, each another one, and never hold more than one of them."""
    for number in range(count):
        _page(number).save(path, "PDF", resolution=200, append=number > 0)


def _page(number: int) -> Image.Image:
    page = Image.new("L", A4_AT_200_DPI, 255)
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=36)
    for line in range(LINES):
        draw.text(
            (150, 150 + 80 * line), f"{sample_files.WORDS}: {number}, {line}", fill=0, font=font
        )
    return page


def _read(path: Path, engine: str) -> Peak:
    child = asyncio.run(_peak_of_children(path, engine))
    parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Peak(parent, child)


async def _peak_of_children(path: Path, engine: str) -> int:
    async with reader.Reader(engine=engine) as reading:
        async with contextlib.aclosing(reading.read(path)) as found:
            async for _ in found:
                pass
        return reading.peak_memory
