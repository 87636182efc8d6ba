"""Read the screens with the default engine, check them, and score the findings."""

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
from pagewarden.checks.rules import check, comparison, languages
from pagewarden.checks.rules.result import CheckResult, Issue, IssueKind, Verdict
from pagewarden.ocr import pages, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


# A kind of error, or a verdict, and its row; None for a verdict on the image.
Finding = tuple[str, int | None]
Pair = tuple[Counter[Finding], Counter[Finding]]

out = Console(highlight=False)


def run(*, pictures: int, seed: int, keep: Path | None, processes: int | None) -> None:
    """Measure, and print all wrong findings and the scores."""
    screens = list(screens_module.make_screens(pictures, seed))
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("checking", total=len(screens))
        source = reader.Reader(processes=processes)
        pairs = asyncio.run(measure(screens, source, keep, lambda: progress.advance(task)))
    out.print(_make_table(score(pairs)))


async def measure(
    screens: Sequence[screens_module.Screen],
    source: reader.Reader,
    keep: Path | None,
    advance: Callable[[], None],
) -> list[Pair]:
    """Return for each screen the expected findings and the reported ones."""
    slots = asyncio.Semaphore(source.processes)

    async def check_one(screen: screens_module.Screen) -> Pair:
        async with slots:
            pair = await _check(screen, source, keep)
        advance()
        return pair

    async with source:
        return list(await asyncio.gather(*map(check_one, screens)))


async def _check(screen: screens_module.Screen, source: reader.Reader, keep: Path | None) -> Pair:
    drawn = screens_module.draw(screen)
    data = _to_png(drawn, keep / f"{screen.name}.png" if keep else None)
    language = languages.find_language(screen.language)
    reading = source.read(data, name=screen.name, languages=(language.ocr_code,))
    async with contextlib.aclosing(reading) as read_pages:
        page = await anext(read_pages)
    result = check.check(page, screen.expected, language)
    pair = count_expected_findings(screen), count_reported_findings(screen, drawn.boxes, result)
    if pair[0] != pair[1]:
        _explain(screen, pair, result)
    return pair


def _to_png(drawn: screens_module.Drawn, path: Path | None) -> bytes:
    buffer = io.BytesIO()
    drawn.image.save(buffer, "PNG")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


def _explain(screen: screens_module.Screen, pair: Pair, result: CheckResult) -> None:
    """Print the missed and the false findings, and the text that was read."""
    expected, reported = pair
    out.print(
        Text(
            f"{screen.name}: missed {list(expected - reported)}, false {list(reported - expected)}"
        )
    )
    out.print(Text(f"  {result.text!r}"))


def _make_table(scores: dict[str, Score]) -> Table:
    shown = Table("finding", "correct", "false", "missed", "precision", "recall")
    for name, one in scores.items():
        counts = map(str, (one.correct, one.false, one.missed))
        shown.add_row(name, *counts, f"{one.precision:.3f}", f"{one.recall:.3f}")
    return shown


# Scores -------------------------------------------------------------------------------------------
# Reported findings against the planted errors.


ERRORS, OVERALL = "all errors", "overall"


@dataclass(frozen=True, slots=True)
class Score:
    """The numbers of correct, false and missed findings."""

    correct: int = 0
    false: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        """Return the share of correct findings; 1 without findings."""
        total = self.correct + self.false
        return self.correct / total if total else 1.0

    @property
    def recall(self) -> float:
        """Return the share of expected findings that were reported; 1 if none were expected."""
        total = self.correct + self.missed
        return self.correct / total if total else 1.0


def count_expected_findings(screen: screens_module.Screen) -> Counter[Finding]:
    """Count the findings that a check of a screen has to report."""
    findings: Counter[Finding] = Counter()
    for index, row in enumerate(screen.rows):
        if row.error is not None:
            findings[row.error, index] += 1
        elif screen.has_references:
            findings[comparison.Verdict.MATCH, index] += 1
    needs_review = any(row.error not in {None, IssueKind.SOFT_MATCH} for row in screen.rows)
    findings[Verdict.MANUAL if needs_review else Verdict.PASS, None] += 1
    return findings


def count_reported_findings(
    screen: screens_module.Screen, boxes: Sequence[pages.Box | None], result: CheckResult
) -> Counter[Finding]:
    """Count the findings of a check by row; the same finding in a row counts once."""
    findings: set[Finding] = {(result.verdict, None)}
    expected = [index for index, row in enumerate(screen.rows) if row.expected is not None]
    for index, outcome in zip(expected, result.strings or (), strict=False):
        findings.add((outcome.verdict, index))
    of_strings = {IssueKind(verdict) for verdict in comparison.Verdict if verdict != "match"}
    for issue in result.issues:
        if issue.expected is None or issue.kind not in of_strings:
            findings.add((issue.kind, _find_row(issue, boxes)))
    return Counter(findings)


def _find_row(issue: Issue, boxes: Sequence[pages.Box | None]) -> int | None:
    """Find the row at the position of an issue."""
    if issue.quad is None:
        return None
    box = pages.bounding_box(issue.quad)
    middle = (box.top + box.bottom) / 2
    rows = (index for index, row in enumerate(boxes) if row and row.top <= middle <= row.bottom)
    return next(rows, None)


def score(pairs: Iterable[tuple[Counter[Finding], Counter[Finding]]]) -> dict[str, Score]:
    """Compare expected with reported findings: by kind, for all errors, overall.

    Soft matches are no errors; verdicts of images are in neither sum.
    """
    correct: Counter[str] = Counter()
    false: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for expected, reported in pairs:
        correct.update(name for name, _ in (expected & reported).elements())
        false.update(name for name, _ in (reported - expected).elements())
        missed.update(name for name, _ in (expected - reported).elements())
    kinds = [comparison.Verdict.MATCH, *IssueKind, *Verdict]
    scores = {str(kind): Score(correct[kind], false[kind], missed[kind]) for kind in kinds}
    scores[ERRORS] = _sum(scores[kind] for kind in IssueKind if kind != IssueKind.SOFT_MATCH)
    matches = (scores[comparison.Verdict.MATCH], scores[IssueKind.SOFT_MATCH])
    scores[OVERALL] = _sum((scores[ERRORS], *matches))
    return {name: one for name, one in scores.items() if one != Score()}


def _sum(scores: Iterable[Score]) -> Score:
    parts = list(scores)
    return Score(
        sum(part.correct for part in parts),
        sum(part.false for part in parts),
        sum(part.missed for part in parts),
    )
