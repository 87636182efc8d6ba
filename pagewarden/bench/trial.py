"""Put bad files through the sandbox, many at a time: each has to end in pages or a typed error."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

from pagewarden import errors
from pagewarden.reading import limits, pages, reader
from pagewarden.reading.sandbox import confinement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
