"""What was done to the programs of the system, and when: it excuses workers that seemed dead.

Times are those of time.time() in this process, which is the clock of Postgres, too.
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
    """From when to when; without an end it lasts."""

    begin: float
    end: float = math.inf

    def touches(self, begin: float, end: float) -> bool:
        """Tell whether any of the time between was part of it."""
        return self.begin <= end and begin <= self.end


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process; ordered: by us."""

    name: str
    at: float
    ordered: bool


@dataclass(slots=True)
class Journal:
    """Counts of disturbances, deaths and stops by process id, outages and cuts of connections.

    What happened is also written to a file, line by line.
    """

    file: Path
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    deaths: dict[int, Death] = field(default_factory=dict)
    stops: collections.defaultdict[int, list[Span]] = field(
        default_factory=lambda: collections.defaultdict(list)
    )
    outages: list[Span] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)

    def say(self, line: str) -> None:
        """Write down what happened, for whoever has to find out why."""
        now = dt.datetime.now(dt.UTC)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{now:%H:%M:%S.%f} {line}\n")

    def died(self, pid: int, name: str, *, ordered: bool) -> None:
        """Note a death; what we ordered counts before what we found."""
        if pid not in self.deaths:
            self.deaths[pid] = Death(name, time.time(), ordered)
            self.say(f"{name} ({pid}) {'was killed' if ordered else 'ended'}")

    def stopped(self, pid: int, name: str) -> Span:
        """Note that a process stands still from now on; whoever lets it go on ends the span."""
        self.stops[pid].append(Span(time.time()))
        self.say(f"{name} ({pid}) was stopped")
        return self.stops[pid][-1]

    def goes_on(self, pid: int, name: str, span: Span) -> None:
        """Note that it goes on."""
        span.end = time.time()
        self.say(f"{name} ({pid}) goes on")

    def gone_since(self, pid: int, at: float) -> float | None:
        """Tell since when a process had been dead or stopped at that time; None: it was well."""
        death = self.deaths.get(pid)
        begins = [span.begin for span in self.stops[pid] if span.touches(at, at)]
        begins += [death.at] if death and death.at <= at else []
        return min(begins, default=None)

    def was_disturbed(self, begin: float, end: float) -> bool:
        """Tell whether the database was away, or its connections were cut, in between."""
        away = any(span.touches(begin, end) for span in self.outages)
        return away or any(begin <= at <= end for at in self.cuts)
