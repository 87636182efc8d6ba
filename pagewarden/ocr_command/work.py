"""Read the files side by side and write what was found; one that fails stops no other."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.ocr_command import inputs
from pagewarden.reading import exporting, pages

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from pagewarden.ocr_command import progress
    from pagewarden.reading import reader, spool


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted; without a folder the results go to standard output, by way of scratch."""

    formats: Sequence[str]
    folder: Path | None
    scratch: Path
    languages: tuple[str, ...] = ()
    password: str | None = None
    unchosen: Container[int] = frozenset()

    @property
    def standard_input(self) -> inputs.Input:
        """Say where standard input is put: it may be gone through more than once."""
        return inputs.Input(
            self.scratch / "standard-input", "standard input", Path("standard-input")
        )


@dataclass(slots=True)
class Outcome:
    """What came of it all: pages that were read, messages about all that was not, what it cost."""

    read: int = 0
    failures: list[str] = field(default_factory=list)
    tokens: int = 0
    cost_usd: float = 0.0

    def add(self, usage: pages.Usage) -> None:
        """Add what a page cost."""
        self.tokens += usage.input_tokens + usage.output_tokens
        self.cost_usd += usage.cost_usd


class Work:
    """All files of one command."""

    def __init__(self, source: reader.Reader, order: Order, shown: progress.Progress) -> None:
        self._reader = source
        self._order = order
        self._shown = shown
        self.outcome = Outcome()
        self._printed = False

    async def run(self, items: Sequence[inputs.Input]) -> None:
        """Read them, as many at a time as there are processes; printed, they keep their order."""
        async with self._reader:
            places = asyncio.Semaphore(self._reader.processes)
            tasks = [asyncio.create_task(self._guarded(item, places)) for item in items]
            try:
                for task in tasks:
                    self._print(await task)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, item: inputs.Input, places: asyncio.Semaphore) -> list[Path]:
        """Read one file and write its results; an error of its own is only noted."""
        async with places:
            try:
                with self._reader.spool() as found:
                    return await self._one(item, found)
            except errors.ReadingError as exc:
                self.outcome.failures.append(str(exc))
            except OSError as exc:
                why = f"{exc.strerror}: {exc.filename}" if exc.filename else str(exc)
                self.outcome.failures.append(f"{item.name}: cannot be saved ({why}). Mend that.")
            self._shown.finish(item.name)
            return []

    async def _one(self, item: inputs.Input, found: spool.Spool) -> list[Path]:
        read, failed = await self._read(item, found)
        if not read + failed:
            raise errors.ReadingError(f"{item.name}: it has none of the pages you chose.")
        if not read:
            self._shown.finish(item.name)
            return []
        targets = item.targets(self._order.folder or self._order.scratch, self._order.formats)
        for name, target in targets.items():
            await self._write(name, item, found, target)
        where = map(str, targets.values()) if self._order.folder else ()
        self._shown.finish(item.name, read, failed, where)
        return list(targets.values())

    async def _read(self, item: inputs.Input, found: spool.Spool) -> tuple[int, int]:
        """Put the pages on disk; gives how many could be read, and how many not."""
        read = failed = 0
        source = self._reader.read(
            item.path,
            name=item.name,
            languages=self._order.languages,
            password=self._order.password,
            done=self._order.unchosen,
            opened=self._open,
        )
        async with contextlib.aclosing(source):
            async for page in source:
                found.add(page)
                if page.source is pages.Source.FAILED:
                    failed += 1
                    self.outcome.failures.append(str(page.error))
                else:
                    read += 1
                self.outcome.add(page.usage)
                self._shown.advance()
        self.outcome.read += read
        return read, failed

    def _open(self, count: int) -> None:
        chosen = (number not in self._order.unchosen for number in range(1, count + 1))
        self._shown.open(sum(chosen))

    async def _write(
        self, format_name: str, item: inputs.Input, found: spool.Spool, target: Path
    ) -> None:
        export = exporting.Export(
            format=format_name,
            pages=found,
            source=item.path,
            name=item.name,
            languages=self._order.languages,
            password=self._order.password,
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        await self._reader.export(export, target)

    def _print(self, results: Sequence[Path]) -> None:
        """Copy results to standard output; between two of text a form feed, as between pages."""
        if self._order.folder is not None:
            return
        for result in results:
            if self._printed:
                sys.stdout.buffer.write(b"\f")
            with result.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            self._printed = True
