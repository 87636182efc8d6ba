"""Draw, read with the default engine, check, count."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from pagewarden.bench.checks import drawing, planting, scoring
from pagewarden.checks import checking, languages
from pagewarden.reading import reader

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pagewarden.checks import report

    Pair = tuple[Counter[scoring.Finding], Counter[scoring.Finding]]

out = Console(highlight=False)


def run(*, pictures: int, seed: int, keep: Path | None, processes: int | None) -> None:
    """Measure, and print where it went wrong, and how often it did not."""
    screens = list(planting.screens(pictures, seed))
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("checking", total=len(screens))
        source = reader.Reader(processes=processes)
        pairs = asyncio.run(measure(screens, source, keep, lambda: progress.advance(task)))
    out.print(_table(scoring.score(pairs)))


async def measure(
    screens: Sequence[planting.Screen],
    source: reader.Reader,
    keep: Path | None,
    advance: Callable[[], None],
) -> list[Pair]:
    """Give for each screen what was planted, and what was reported."""
    places = asyncio.Semaphore(source.processes)

    async def one(screen: planting.Screen) -> Pair:
        async with places:
            pair = await _one(screen, source, keep)
        advance()
        return pair

    async with source:
        return list(await asyncio.gather(*map(one, screens)))


async def _one(screen: planting.Screen, source: reader.Reader, keep: Path | None) -> Pair:
    drawn = drawing.draw(screen)
    data = _png(drawn, keep / f"{screen.name}.png" if keep else None)
    language = languages.find(screen.language)
    reading = source.read(data, name=screen.name, languages=(language.reading,))
    async with contextlib.aclosing(reading) as found:
        page = await anext(found)
    result = checking.check(page, screen.expected, language)
    pair = scoring.planted(screen), scoring.reported(screen, drawn.boxes, result)
    if pair[0] != pair[1]:
        _explain(screen, pair, result)
    return pair


def _png(drawn: drawing.Drawn, path: Path | None) -> bytes:
    buffer = io.BytesIO()
    drawn.image.save(buffer, "PNG")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def _explain(screen: planting.Screen, pair: Pair, result: report.Report) -> None:
    """Say what was overlooked and what was made up, and what was read."""
    there, found = pair
    out.print(Text(f"{screen.name}: overlooked {list(there - found)}, wrong {list(found - there)}"))
    out.print(Text(f"  {result.text!r}"))


def _table(scores: dict[str, scoring.Score]) -> Table:
    shown = Table("found", "right", "wrong", "overlooked", "precision", "recall")
    for name, one in scores.items():
        counts = map(str, (one.right, one.wrong, one.overlooked))
        shown.add_row(name, *counts, f"{one.precision:.3f}", f"{one.recall:.3f}")
    return shown
