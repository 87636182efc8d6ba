"""python -m benchmarks fuzz and hostile: bad files in, none of harm.

Parsing only, with the null engine.
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
from pagewarden.reading import limits, pages, reader
from pagewarden.reading.sandbox import confinement

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping


MB = 1e6
MAX_SEED_BYTES = 1 << 20
"""Of real files only small ones are mutated, or most of the time would go into reading them."""


def command(
    *,
    count: Annotated[int, typer.Option(min=1, help="How many files to break.")] = 10_000,
    corpus: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Break the files of this folder too.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same number breaks files in the same way.")] = 1,
    first: Annotated[int, typer.Option(min=1, help="Number of the first file, to repeat it.")] = 1,
) -> None:
    """Break files at random and read them: each ends in pages or one typed error."""
    originals = {**sample_files.all_kinds(), **_small_files(corpus)}
    _finish(run(broken(originals, seed, range(first, first + count))))


def hostile(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Files to read.")],
    *,
    seed: Annotated[int, typer.Option(help="The same number reads them in the same order.")] = 1,
) -> None:
    """Read every file of a folder as it is, a hundred at a time, in any order."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    random.Random(seed).shuffle(files)  # noqa: S311  # no secret
    _finish(run((str(path.relative_to(folder)), path) for path in files))


def broken(
    originals: Mapping[str, bytes], seed: int, numbers: range
) -> Iterator[tuple[str, bytes]]:
    """Break one original for each number; seed and number decide which, and how."""
    names = sorted(originals)
    for number in numbers:
        chance = random.Random(f"{seed}:{number}")  # noqa: S311  # no secret
        name = chance.choice(names)
        yield f"no. {number} of {name}", mutate(originals[name], chance)


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
    console.print(f"our own process is alive; {before:.0f} MB early on, {after:.0f} MB at the end")
    for ending in report.unexpected:
        console.print(f"unexpected: {ending.said}", markup=False)
    sys.exit(bool(report.unexpected))


# Reading the files --------------------------------------------------------------------------------
# Put bad files through the sandbox, many at a time: each has to end in pages or a typed error.


AT_A_TIME = 100
LIMITS = limits.Limits(
    memory_bytes=1 << 30, page_cpu_seconds=10, page_seconds=30, document_seconds=120
)
WARM_UP = 50
"""Files after which our own process is taken to have all the memory it needs."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a file ended: a word for it, and what was said; expected says that it is one of ours."""

    name: str
    word: str
    said: str = ""
    seconds: float = 0.0
    expected: bool = True


@dataclass(slots=True)
class Report:
    """How many files ended in each way, and the slowest of them; unexpected ends one by one.

    memory is that of our own process, in bytes, early on and at the end.
    """

    counts: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, Ending] = field(default_factory=dict)
    unexpected: list[Ending] = field(default_factory=list)
    memory_before: int = 0
    memory_after: int = 0

    def add(self, ending: Ending) -> None:
        """Count a file."""
        self.counts[ending.word] += 1
        if ending.seconds >= self.slowest.get(ending.word, ending).seconds:
            self.slowest[ending.word] = ending
        if not ending.expected:
            self.unexpected.append(ending)
        if self.counts.total() == WARM_UP:
            self.memory_before = confinement.resident(os.getpid())

    def table(self) -> Table:
        """Show the counts."""
        table = Table("ending", "files", "slowest", "which is")
        for word, count in self.counts.most_common():
            slowest = self.slowest[word]
            said = slowest.said or slowest.name
            table.add_row(word, f"{count:,}", f"{slowest.seconds:.1f} s", said)
        return table


async def run(cases: Iterator[tuple[str, Path | bytes]]) -> Report:
    """Read every case with the null engine."""
    report = Report()
    async with reader.Reader(engine="null", limits=LIMITS) as source:
        await asyncio.gather(*(_take(source, cases, report) for _ in range(AT_A_TIME)))
    report.memory_after = confinement.resident(os.getpid())
    return report


async def _take(
    source: reader.Reader, cases: Iterator[tuple[str, Path | bytes]], report: Report
) -> None:
    for name, case in cases:
        report.add(await _ending(source, name, case))


async def _ending(source: reader.Reader, name: str, case: Path | bytes) -> Ending:
    started, word, said, expected = time.monotonic(), "", "", True
    try:
        read = [page async for page in source.read(case, name=name)]
        failed = [str(page.error) for page in read if page.source is pages.Source.FAILED]
        word = "read" if not failed else "no page read" if len(failed) == len(read) else "in part"
        said = failed[0] if failed else ""
    except errors.ReadingError as exc:
        word, said = type(exc).__name__, str(exc)
    except Exception as exc:  # noqa: BLE001  # which is what we look for
        word, said, expected = type(exc).__name__, f"{name}: {exc}", False
    return Ending(name, word, said, time.monotonic() - started, expected)


# Mutations ----------------------------------------------------------------------------------------
# Break a file in the ways files break, and in those in which somebody breaks them on purpose.


MOST_CHANGES = 8
HEAD_BYTES = 64

_NUMBER = re.compile(rb"\d+")
_ODD_NUMBERS = (
    b"0", b"-1", b"1", b"65536", b"2147483647", b"2147483648", b"4294967295", b"99999999999999999",
)  # fmt: skip
_ODD_BYTES = (b"\x00", b"\x7f", b"\x80", b"\xff")


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Change a file a few times; the same chance makes the same file."""
    for _ in range(chance.randint(1, MOST_CHANGES)):
        if data:
            data = chance.choice(_WAYS)(data, chance)
    return data


def _flip_bits(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 16)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _remove(data: bytes, chance: random.Random) -> bytes:
    start, end = _piece(data, chance)
    return data[:start] + data[end:]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start, end = _piece(data, chance)
    return data[:end] + data[start:end] * chance.randint(1, 4) + data[end:]


def _swap(data: bytes, chance: random.Random) -> bytes:
    start, end = _piece(data, chance)
    place = chance.randrange(len(data))
    rest = data[:start] + data[end:]
    return rest[:place] + data[start:end] + rest[place:]


def _change_head(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(min(HEAD_BYTES, len(data)))
    odd = chance.choice(_ODD_BYTES) * chance.choice((1, 2, 4))
    return data[:place] + odd + data[place + len(odd) :]


def _change_number(data: bytes, chance: random.Random) -> bytes:
    """Change a number that is written in digits, as in a PDF."""
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return _change_head(data, chance)
    found = chance.choice(numbers)
    return data[: found.start()] + chance.choice(_ODD_NUMBERS) + data[found.end() :]


def _piece(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + chance.choice((1, 4, 16, 256, 4096)))


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _change_head,
    _change_number,
    _flip_bits,
    _remove,
    _repeat,
    _swap,
    _truncate,
)
