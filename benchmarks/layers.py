"""python -m benchmarks layers: text layers of PDFs, how fast and how rightly read."""

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
from pagewarden.reading import pages, reader

if TYPE_CHECKING:
    from collections.abc import Sequence


AT_A_TIME = 4
LEAST_PAGES = (1, 2, 5)

out = Console(highlight=False)


@dataclass(slots=True)
class Tally:
    """What was read, how long it took, and how much of it pdftotext says too."""

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
        """Count what both say, wherever it stands."""
        mine, other = _words(ours), _words(theirs)
        self.common_words += 2 * (mine & other).total()
        self.all_words += mine.total() + other.total()
        mine, other = (collections.Counter("".join(bag.elements())) for bag in (mine, other))
        self.common_characters += 2 * (mine & other).total()
        self.all_characters += mine.total() + other.total()


def command(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="PDFs to read.")],
) -> None:
    """Read the text layers of a folder of PDFs on one core, beside pdftotext."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    files = sorted(folder.rglob("*.pdf"))
    if not files:
        raise errors.SettingsError(f"there is no PDF in {folder}; name another folder")
    _show(asyncio.run(_read(files)))


async def _read(files: Sequence[Path]) -> Tally:
    tally = Tally()
    async with reader.Reader(engine="null", processes=1) as null:
        chosen = {
            path: await _compare(null, path, tally)
            for path in track(files, "comparing", console=out, transient=True)
        }
        for least in LEAST_PAGES:
            group = [path for path, count in chosen.items() if count >= least]
            if group:
                pages_in_all = sum(chosen[path] for path in group)
                tally.speeds[least] = pages_in_all / await _time(null, group)
    return tally


async def _time(null: reader.Reader, group: Sequence[Path]) -> float:
    """Read them a few at a time, and give the seconds."""
    places = asyncio.Semaphore(AT_A_TIME)

    async def read(path: Path) -> None:
        async with places:
            await _pages(null, path, Tally())

    begin = time.monotonic()
    await asyncio.gather(*map(read, group))
    return time.monotonic() - begin


async def _compare(null: reader.Reader, path: Path, tally: Tally) -> int:
    """Read a file and hold it against pdftotext; count its pages if all of them have a layer.

    Pages that are scans are rendered for an engine, which is another matter.
    """
    found = await _pages(null, path, tally)
    if not found or any(page.source is not pages.Source.LAYER for page in found):
        tally.scanned += bool(found)
        return 0
    tally.files += 1
    tally.pages += len(found)
    theirs = await asyncio.to_thread(_pdftotext, path)
    for page, text in zip(found, theirs, strict=False):
        tally.compare(page.text, text)
    return len(found)


async def _pages(null: reader.Reader, path: Path, tally: Tally) -> list[pages.ReadPage]:
    try:
        async with contextlib.aclosing(null.read(path)) as found:
            return [page async for page in found]
    except errors.ReadingError as exc:
        tally.failed.append(str(exc))
        return []


def _pdftotext(path: Path) -> list[str]:
    said = subprocess.run(  # a file of the operator's own
        ["pdftotext", "-raw", "-enc", "UTF-8", path, "-"],
        capture_output=True,
        check=False,
    )
    return said.stdout.decode(errors="replace").split("\f")[:-1]


def _words(text: str) -> collections.Counter[str]:
    return collections.Counter(unicodedata.normalize("NFC", text).split())


def _show(tally: Tally) -> None:
    out.print(
        f"{tally.pages} pages of {tally.files} files, one core "
        f"({tally.scanned} files with scanned pages left out)"
    )
    for least, speed in tally.speeds.items():
        out.print(f"files of {least} or more pages: {speed:.0f} pages/s")
    words = tally.common_words / tally.all_words
    characters = tally.common_characters / tally.all_characters
    out.print(f"as pdftotext says: {words:.2%} of the words, {characters:.2%} of the characters")
    for said in tally.failed:
        out.print(f"not readable: {said}", markup=False)
