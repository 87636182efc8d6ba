"""The faults of a run and their times, which explain why a worker lost its document.

Times are those of time.time() in this process; Postgres uses the same clock.
"""

from __future__ import annotations

import collections
import datetime as dt
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(slots=True)
class Span:
    """A period; infinite until its end is set."""

    begin: float
    end: float = math.inf

    def overlaps(self, begin: float, end: float) -> bool:
        """Return whether it overlaps the period from `begin` to `end`."""
        return self.begin <= end and begin <= self.end


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process; `ordered` if the benchmark caused it."""

    name: str
    at: float
    ordered: bool


@dataclass(slots=True)
class Journal:
    """Counts of disturbances, deaths and suspensions by process id, outages, cut connections.

    Every event is also written to a log file.
    """

    file: Path
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    deaths: dict[int, Death] = field(default_factory=dict)
    suspensions: collections.defaultdict[int, list[Span]] = field(
        default_factory=lambda: collections.defaultdict(list)
    )
    outages: list[Span] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)

    def write(self, line: str) -> None:
        """Write a line with the time to the log file."""
        now = dt.datetime.now(dt.UTC)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{now:%H:%M:%S.%f} {line}\n")

    def record_death(self, pid: int, name: str, *, ordered: bool) -> None:
        """Record the end of a process; the first record of a process counts."""
        if pid not in self.deaths:
            self.deaths[pid] = Death(name, time.time(), ordered)
            self.write(f"{name} ({pid}) {'was killed' if ordered else 'ended'}")

    def record_suspension(self, pid: int, name: str) -> Span:
        """Record that a process is suspended; return the span, for record_resume."""
        self.suspensions[pid].append(Span(time.time()))
        self.write(f"{name} ({pid}) was suspended")
        return self.suspensions[pid][-1]

    def record_resume(self, pid: int, name: str, span: Span) -> None:
        """Record that a suspended process continues."""
        span.end = time.time()
        self.write(f"{name} ({pid}) was resumed")

    def unavailable_since(self, pid: int, at: float) -> float | None:
        """Return since when a process was dead or suspended at a time; None if it was running."""
        death = self.deaths.get(pid)
        begins = [span.begin for span in self.suspensions[pid] if span.overlaps(at, at)]
        begins += [death.at] if death and death.at <= at else []
        return min(begins, default=None)

    def was_disturbed(self, begin: float, end: float) -> bool:
        """Return whether there was an outage of the database or a cut connection in a period."""
        had_outage = any(span.overlaps(begin, end) for span in self.outages)
        return had_outage or any(begin <= at <= end for at in self.cuts)
