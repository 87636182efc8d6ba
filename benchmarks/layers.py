"""python -m benchmarks layers: text layers of PDFs, speed and agreement with pdftotext."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import subprocess
import time
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import track

from pagewarden import errors
from pagewarden.ocr import reader
from pagewarden.ocr.pages import ReadPage, TextSource

if TYPE_CHECKING:
    from collections.abc import Sequence


CONCURRENCY = 4
MINIMUM_PAGES = (1, 2, 5)

out = Console(highlight=False)


@dataclass(slots=True)
class Tally:
    """The figures: files, pages, pages per second by minimum length, agreement with pdftotext."""

    files: int = 0
    pages: int = 0
    scanned: int = 0
    failed: list[str] = field(default_factory=list)
    speeds: dict[int, float] = field(default_factory=dict)
    common_words: int = 0
    all_words: int = 0
    common_characters: int = 0
    all_characters: int = 0

    def compare(self, ours: str, theirs: str) -> None:
        """Count words and characters that both texts have, in any order."""
        own, other = _count_words(ours), _count_words(theirs)
        self.common_words += 2 * (own & other).total()
        self.all_words += own.total() + other.total()
        own, other = (collections.Counter("".join(bag.elements())) for bag in (own, other))
        self.common_characters += 2 * (own & other).total()
        self.all_characters += own.total() + other.total()


def command(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="PDFs to read.")],
) -> None:
    """Read the text layers of a folder of PDFs on one core and compare with pdftotext."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    files = sorted(folder.rglob("*.pdf"))
    if not files:
        raise errors.SettingsError(f"there is no PDF in {folder}; pass another folder")
    _print(asyncio.run(_measure(files)))


async def _measure(files: Sequence[Path]) -> Tally:
    tally = Tally()
    async with reader.Reader(engine="null", processes=1) as null_reader:
        counts = {
            path: await _compare(null_reader, path, tally)
            for path in track(files, "comparing", console=out, transient=True)
        }
        for least in MINIMUM_PAGES:
            group = [path for path, count in counts.items() if count >= least]
            if group:
                total = sum(counts[path] for path in group)
                tally.speeds[least] = total / await _time_reading(null_reader, group)
    return tally


async def _time_reading(null_reader: reader.Reader, group: Sequence[Path]) -> float:
    """Read a few files at a time; return the seconds."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def read(path: Path) -> None:
        async with slots:
            await _read_pages(null_reader, path, Tally())

    start = time.monotonic()
    await asyncio.gather(*map(read, group))
    return time.monotonic() - start


async def _compare(null_reader: reader.Reader, path: Path, tally: Tally) -> int:
    """Compare a file with pdftotext; return its pages, 0 if any of them is a scan.

    Scanned pages are rendered for an engine, which is not measured here.
    """
    pages = await _read_pages(null_reader, path, tally)
    if not pages or any(page.source is not TextSource.LAYER for page in pages):
        tally.scanned += bool(pages)
        return 0
    tally.files += 1
    tally.pages += len(pages)
    theirs = await asyncio.to_thread(_run_pdftotext, path)
    for page, text in zip(pages, theirs, strict=False):
        tally.compare(page.text, text)
    return len(pages)


async def _read_pages(null_reader: reader.Reader, path: Path, tally: Tally) -> list[ReadPage]:
    try:
        async with contextlib.aclosing(null_reader.read(path)) as pages:
            return [page async for page in pages]
    except errors.ReadingError as exc:
        tally.failed.append(str(exc))
        return []


def _run_pdftotext(path: Path) -> list[str]:
    result = subprocess.run(
        ["pdftotext", "-raw", "-enc", "UTF-8", path, "-"],
        capture_output=True,
        check=False,
    )
    return result.stdout.decode(errors="replace").split("\f")[:-1]


def _count_words(text: str) -> collections.Counter[str]:
    return collections.Counter(unicodedata.normalize("NFC", text).split())


def _print(tally: Tally) -> None:
    out.print(
        f"{tally.pages} pages of {tally.files} files, one core "
        f"({tally.scanned} files with scanned pages excluded)"
    )
    for least, speed in tally.speeds.items():
        out.print(f"files of {least} or more pages: {speed:.0f} pages/s")
    words = tally.common_words / tally.all_words
    characters = tally.common_characters / tally.all_characters
    out.print(f"agreement with pdftotext: {words:.2%} of words, {characters:.2%} of characters")
    for error in tally.failed:
        out.print(f"failed: {error}", markup=False)
