"""How many planted faults were found, and how many that nobody planted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.checks import comparing, report
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pagewarden.bench.checks import planting

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


# A kind of fault, or a verdict, and the row or picture it is about; None where no row is.
Finding = tuple[str, int | None]


def planted(screen: planting.Screen) -> Counter[Finding]:
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
    screen: planting.Screen, boxes: Sequence[pages.Box | None], result: report.Report
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
