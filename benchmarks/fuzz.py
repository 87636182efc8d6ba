"""python -m benchmarks fuzz and hostile: corrupted and hostile files through the sandbox.

Files are only parsed: the engine is null.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import sample_files
from pagewarden import errors
from pagewarden.ocr import limits, pages, reader
from pagewarden.ocr.sandbox import confinement

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping


MB = 1e6
MAX_SEED_BYTES = 1 << 20
"""Larger files are not mutated, since reading them takes most of the time."""


def command(
    *,
    count: Annotated[int, typer.Option(min=1, help="Number of files to corrupt.")] = 10_000,
    corpus: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Corrupt the files of this folder, too.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random changes.")] = 1,
    first: Annotated[
        int, typer.Option(min=1, help="Number of the first file, to repeat a failure.")
    ] = 1,
) -> None:
    """Read randomly corrupted files: each must end in pages or one typed error."""
    originals = {**sample_files.make_all_kinds(), **_small_files(corpus)}
    _finish(run(corrupt(originals, seed, range(first, first + count))))


def hostile(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Files to read.")],
    *,
    seed: Annotated[int, typer.Option(help="Seed of the random order.")] = 1,
) -> None:
    """Read every file of a folder unchanged, a hundred at a time, in random order."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)  # noqa: S311  # no secret
    _finish(run((str(path.relative_to(folder)), path) for path in files))


def corrupt(
    originals: Mapping[str, bytes], seed: int, numbers: range
) -> Iterator[tuple[str, bytes]]:
    """Corrupt one original for each number; seed and number determine which, and how."""
    names = sorted(originals)
    for number in numbers:
        rng = random.Random(f"{seed}:{number}")  # noqa: S311  # no secret
        name = rng.choice(names)
        yield f"no. {number} of {name}", mutate(originals[name], rng)


def _small_files(folder: Path | None) -> dict[str, bytes]:
    if folder is None:
        return {}
    found = (path for path in folder.rglob("*") if path.is_file())
    small = (path for path in found if path.stat().st_size <= MAX_SEED_BYTES)
    return {str(path.relative_to(folder)): path.read_bytes() for path in small}


def _finish(running: Coroutine[None, None, Report]) -> None:
    report = asyncio.run(running)
    console = Console(highlight=False)
    console.print(report.table())
    before, after = report.memory_before / MB, report.memory_after / MB
    console.print(
        f"the parent process survived; {before:.0f} MB after warm-up, {after:.0f} MB at the end"
    )
    for ending in report.unexpected:
        console.print(f"unexpected: {ending.message}", markup=False)
    sys.exit(bool(report.unexpected))


# Reading the files --------------------------------------------------------------------------------
# Many files at a time; each has to end in pages or a typed error.


CONCURRENCY = 100
LIMITS = limits.Limits(
    memory_bytes=1 << 30, page_cpu_seconds=10, page_seconds=30, document_seconds=120
)
WARM_UP = 50
"""Files after which the memory of the parent process is expected to be constant."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a file ended; `expected` if in pages or one of our errors."""

    name: str
    outcome: str
    message: str = ""
    seconds: float = 0.0
    expected: bool = True


@dataclass(slots=True)
class Report:
    """Counts and slowest files by outcome, unexpected endings, memory of the parent in bytes."""

    counts: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, Ending] = field(default_factory=dict)
    unexpected: list[Ending] = field(default_factory=list)
    memory_before: int = 0
    memory_after: int = 0

    def add(self, ending: Ending) -> None:
        """Count a file."""
        self.counts[ending.outcome] += 1
        if ending.seconds >= self.slowest.get(ending.outcome, ending).seconds:
            self.slowest[ending.outcome] = ending
        if not ending.expected:
            self.unexpected.append(ending)
        if self.counts.total() == WARM_UP:
            self.memory_before = confinement.get_resident_memory(os.getpid())

    def table(self) -> Table:
        """Make a table of the counts."""
        table = Table("outcome", "files", "slowest", "file or message")
        for outcome, count in self.counts.most_common():
            slowest = self.slowest[outcome]
            text = slowest.message or slowest.name
            table.add_row(outcome, f"{count:,}", f"{slowest.seconds:.1f} s", text)
        return table


async def run(cases: Iterator[tuple[str, Path | bytes]]) -> Report:
    """Read every case with the null engine."""
    report = Report()
    async with reader.Reader(engine="null", limits=LIMITS) as source:
        await asyncio.gather(*(_read_all(source, cases, report) for _ in range(CONCURRENCY)))
    report.memory_after = confinement.get_resident_memory(os.getpid())
    return report


async def _read_all(
    source: reader.Reader, cases: Iterator[tuple[str, Path | bytes]], report: Report
) -> None:
    for name, case in cases:
        report.add(await _read_one(source, name, case))


async def _read_one(source: reader.Reader, name: str, case: Path | bytes) -> Ending:
    start, message, expected = time.monotonic(), "", True
    try:
        read = [page async for page in source.read(case, name=name)]
        failed = [str(page.error) for page in read if page.source is pages.TextSource.FAILED]
        outcome = (
            "read" if not failed else "no page read" if len(failed) == len(read) else "in part"
        )
        message = failed[0] if failed else ""
    except errors.ReadingError as exc:
        outcome, message = type(exc).__name__, str(exc)
    except Exception as exc:  # noqa: BLE001  # to be reported
        outcome, message, expected = type(exc).__name__, f"{name}: {exc}", False
    return Ending(name, outcome, message, time.monotonic() - start, expected)


# Mutations ----------------------------------------------------------------------------------------
# Accidental damage, and manipulation by an attacker.


MAX_CHANGES = 8
HEAD_BYTES = 64

_NUMBER = re.compile(rb"\d+")
_EDGE_NUMBERS = (
    b"0", b"-1", b"1", b"65536", b"2147483647", b"2147483648", b"4294967295", b"99999999999999999",
)  # fmt: skip
_EDGE_BYTES = (b"\x00", b"\x7f", b"\x80", b"\xff")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change a file a few times; the same seed of `rng` makes the same file."""
    for _ in range(rng.randint(1, MAX_CHANGES)):
        if data:
            data = rng.choice(_MUTATIONS)(data, rng)
    return data


def _flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 16)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _remove(data: bytes, rng: random.Random) -> bytes:
    start, end = _choose_range(data, rng)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = _choose_range(data, rng)
    return data[:end] + data[start:end] * rng.randint(1, 4) + data[end:]


def _swap(data: bytes, rng: random.Random) -> bytes:
    start, end = _choose_range(data, rng)
    position = rng.randrange(len(data))
    rest = data[:start] + data[end:]
    return rest[:position] + data[start:end] + rest[position:]


def _change_head(data: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(min(HEAD_BYTES, len(data)))
    replacement = rng.choice(_EDGE_BYTES) * rng.choice((1, 2, 4))
    return data[:position] + replacement + data[position + len(replacement) :]


def _change_number(data: bytes, rng: random.Random) -> bytes:
    """Replace a number written in digits, as in a PDF."""
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return _change_head(data, rng)
    match = rng.choice(numbers)
    return data[: match.start()] + rng.choice(_EDGE_NUMBERS) + data[match.end() :]


def _choose_range(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.choice((1, 4, 16, 256, 4096)))


_MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _change_head,
    _change_number,
    _flip_bits,
    _remove,
    _repeat,
    _swap,
    _truncate,
)
