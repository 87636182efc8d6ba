"""The figures of a run, from what the referee saw and the journal says."""

from __future__ import annotations

import collections
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pagewarden.bench.chaos import journal as journals
    from pagewarden.bench.chaos import referee as referees

WASTED = ("rescued", "given back", "cancelled")
"""Ends of a claim whose work was done for nothing, at least that since the last page was saved."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number of seconds are spread; all are 0 where there are none."""

    count: int
    p50: float
    p99: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Find the middle, the last hundredth and the longest."""
        if not seconds:
            return cls(0, 0.0, 0.0, 0.0)
        ranked = sorted(seconds)
        last = ranked[min(len(ranked) - 1, round(0.99 * (len(ranked) - 1)))]
        return cls(len(ranked), statistics.median(ranked), last, ranked[-1])


@dataclass(frozen=True, slots=True)
class Work:
    """What became of the claims, by how they ended; wasted is the share whose work was lost.

    Pages saved again are those that were saved before, in the same run of the same reading.
    """

    claims: int
    ends: dict[str, int]
    wasted: float
    pages: int
    pages_again: int


def work(holds: Iterable[referees.Hold], pages: int, pages_again: int) -> Work:
    """Count how claims ended."""
    ends = collections.Counter(hold.end.kind if hold.end else "open" for hold in holds)
    lost = sum(ends[kind] for kind in WASTED)
    claims = ends.total()
    return Work(claims, dict(ends), lost / claims if claims else 0.0, pages, pages_again)


def recoveries(
    holds: Iterable[referees.Hold], journal: journals.Journal, grace: float
) -> tuple[list[float], list[float]]:
    """Find how long documents stayed in hands that were killed or stood still, in seconds.

    Second come those during whose wait the database was away, or had been less than grace
    before: then the sweep lets every worker be heard first.
    """
    usual: list[float] = []
    during_outages: list[float] = []
    for hold in holds:
        if not hold.was_rescued or hold.end is None:
            continue
        gone = journal.gone_since(hold.pid, hold.end.at)
        if gone is None:
            continue
        begin = max(gone, hold.begin.at)
        away = any(
            span.begin <= hold.end.at and begin <= span.end + grace for span in journal.outages
        )
        (during_outages if away else usual).append(hold.end.at - begin)
    return usual, during_outages


def per_second(events: Iterable[referees.Event], begin: float, end: float) -> float:
    """Tell how many documents were completed each second in between."""
    count = sum(event.kind == "completed" and begin <= event.at < end for event in events)
    return count / (end - begin) if end > begin else 0.0
