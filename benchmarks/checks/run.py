"""Read the screens with the default engine, check them, and score what was found."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from benchmarks.checks import screens as screens_module
from pagewarden.checks import checking, comparing, languages, report
from pagewarden.reading import pages, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


# A kind of fault, or a verdict, and the row or picture it is about; None where no row is.
Finding = tuple[str, int | None]
Pair = tuple[Counter[Finding], Counter[Finding]]

out = Console(highlight=False)


def run(*, pictures: int, seed: int, keep: Path | None, processes: int | None) -> None:
    """Measure, and print where it went wrong, and how often it did not."""
    screens = list(screens_module.screens(pictures, seed))
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("checking", total=len(screens))
        source = reader.Reader(processes=processes)
        pairs = asyncio.run(measure(screens, source, keep, lambda: progress.advance(task)))
    out.print(_table(score(pairs)))


async def measure(
    screens: Sequence[screens_module.Screen],
    source: reader.Reader,
    keep: Path | None,
    advance: Callable[[], None],
) -> list[Pair]:
    """Give for each screen what was planted, and what was reported."""
    places = asyncio.Semaphore(source.processes)

    async def one(screen: screens_module.Screen) -> Pair:
        async with places:
            pair = await _one(screen, source, keep)
        advance()
        return pair

    async with source:
        return list(await asyncio.gather(*map(one, screens)))


async def _one(screen: screens_module.Screen, source: reader.Reader, keep: Path | None) -> Pair:
    drawn = screens_module.draw(screen)
    data = _png(drawn, keep / f"{screen.name}.png" if keep else None)
    language = languages.find(screen.language)
    reading = source.read(data, name=screen.name, languages=(language.reading,))
    async with contextlib.aclosing(reading) as found:
        page = await anext(found)
    result = checking.check(page, screen.expected, language)
    pair = planted(screen), reported(screen, drawn.boxes, result)
    if pair[0] != pair[1]:
        _explain(screen, pair, result)
    return pair


def _png(drawn: screens_module.Drawn, path: Path | None) -> bytes:
    buffer = io.BytesIO()
    drawn.image.save(buffer, "PNG")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def _explain(screen: screens_module.Screen, pair: Pair, result: report.Report) -> None:
    """Say what was overlooked and what was made up, and what was read."""
    there, found = pair
    out.print(Text(f"{screen.name}: overlooked {list(there - found)}, wrong {list(found - there)}"))
    out.print(Text(f"  {result.text!r}"))


def _table(scores: dict[str, Score]) -> Table:
    shown = Table("found", "right", "wrong", "overlooked", "precision", "recall")
    for name, one in scores.items():
        counts = map(str, (one.right, one.wrong, one.overlooked))
        shown.add_row(name, *counts, f"{one.precision:.3f}", f"{one.recall:.3f}")
    return shown


# Scores -------------------------------------------------------------------------------------------
# How many planted faults were found, and how many that nobody planted.


FAULTS, OVERALL = "all faults", "overall"


@dataclass(frozen=True, slots=True)
class Score:
    """What was right, found though it is not there, and there though it was not found."""

    right: int = 0
    wrong: int = 0
    overlooked: int = 0

    @property
    def precision(self) -> float:
        """Say which share of what was found is there; 1 where nothing was found."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Say which share of what is there was found; 1 where nothing is there."""
        total = self.right + self.overlooked
        return self.right / total if total else 1.0


def planted(screen: screens_module.Screen) -> Counter[Finding]:
    """List what a check has to find on a screen."""
    found: Counter[Finding] = Counter()
    for index, row in enumerate(screen.rows):
        if row.fault is not None:
            found[row.fault, index] += 1
        elif screen.has_references:
            found[comparing.Verdict.MATCH, index] += 1
    real = any(row.fault not in {None, report.Kind.SOFT_MATCH} for row in screen.rows)
    found[report.Verdict.MANUAL if real else report.Verdict.PASS, None] += 1
    return found


def reported(
    screen: screens_module.Screen, boxes: Sequence[pages.Box | None], result: report.Report
) -> Counter[Finding]:
    """List what a check found, by the rows it is about; the same thing in a row counts once."""
    found: set[Finding] = {(result.verdict, None)}
    expected = [index for index, row in enumerate(screen.rows) if row.expected is not None]
    for index, outcome in zip(expected, result.strings or (), strict=False):
        found.add((outcome.verdict, index))
    of_strings = {report.Kind(verdict) for verdict in comparing.Verdict if verdict != "match"}
    for issue in result.issues:
        if issue.expected is None or issue.kind not in of_strings:
            found.add((issue.kind, _row(issue, boxes)))
    return Counter(found)


def _row(issue: report.Issue, boxes: Sequence[pages.Box | None]) -> int | None:
    """Find the row that an issue is drawn on."""
    if issue.quad is None:
        return None
    seen = pages.bounds(issue.quad)
    middle = (seen.top + seen.bottom) / 2
    rows = (index for index, box in enumerate(boxes) if box and box.top <= middle <= box.bottom)
    return next(rows, None)


def score(pairs: Iterable[tuple[Counter[Finding], Counter[Finding]]]) -> dict[str, Score]:
    """Compare what was planted with what was reported: by kind, of faults, of everything.

    Faults are what needs a person, so no soft matches; verdicts of pictures are in neither sum.
    """
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    overlooked: Counter[str] = Counter()
    for there, found in pairs:
        right.update(name for name, _ in (there & found).elements())
        wrong.update(name for name, _ in (found - there).elements())
        overlooked.update(name for name, _ in (there - found).elements())
    kinds = [comparing.Verdict.MATCH, *report.Kind, *report.Verdict]
    scores = {str(kind): Score(right[kind], wrong[kind], overlooked[kind]) for kind in kinds}
    scores[FAULTS] = _sum(scores[kind] for kind in report.Kind if kind != report.Kind.SOFT_MATCH)
    notes = (scores[comparing.Verdict.MATCH], scores[report.Kind.SOFT_MATCH])
    scores[OVERALL] = _sum((scores[FAULTS], *notes))
    return {name: one for name, one in scores.items() if one != Score()}


def _sum(scores: Iterable[Score]) -> Score:
    listed = list(scores)
    return Score(
        sum(one.right for one in listed),
        sum(one.wrong for one in listed),
        sum(one.overlooked for one in listed),
    )
