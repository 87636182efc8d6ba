"""What the samples say, as a table, as a verdict, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich import table, text

from benchmarks.queue import contestants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.queue import contest, databases


# Above this a process of the load generator had hardly any time left to wait.
_BUSY = 0.9

_GROWTH_ALLOWED = 1.5
_AIM = 2.0


@dataclass(frozen=True, slots=True)
class Line:
    """One contestant at one batch size: medians over the rounds that count."""

    contestant: str
    batch: int
    jobs_per_second: float
    lowest: float
    highest: float
    p50_ms: float
    p99_ms: float
    generator_cores: float
    busiest_process: float
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured."""

    server: databases.Server
    plan: contest.Plan
    samples: Sequence[contest.Sample]
    claims: Sequence[contest.Claims]

    @property
    def problems(self) -> list[str]:
        """Name the rounds that failed and why."""
        return [
            f"{sample.contestant}, batch {sample.batch}: {sample.problem}"
            for sample in self.samples
            if sample.problem
        ]

    def lines(self, batch: int) -> list[Line]:
        """Sum up the contestants at this batch size, ours first, then the fastest."""
        names = dict.fromkeys(sample.contestant for sample in self.samples)
        lines = [_line(name, batch, self.samples) for name in names]
        return sorted(
            lines, key=lambda line: (line.contestant != contestants.OURS, -line.jobs_per_second)
        )

    def ratio(self, line: Line) -> float | None:
        """Say how many times as many jobs we do a second as this contestant."""
        ours = next((x for x in self.lines(line.batch) if x.contestant == contestants.OURS), None)
        if ours is None or not ours.jobs_per_second or not line.jobs_per_second:
            return None
        return ours.jobs_per_second / line.jobs_per_second

    def lead(self, batch: int) -> tuple[float, str] | None:
        """Give our smallest ratio at this batch size and the peer it is over."""
        ratios = [
            (ratio, line.contestant)
            for line in self.lines(batch)
            if line.contestant != contestants.OURS and (ratio := self.ratio(line)) is not None
        ]
        return min(ratios, default=None)

    @property
    def growth(self) -> float | None:
        """Divide a claim's p99 at the largest backlog by that at the smallest."""
        if len(self.claims) < 2:
            return None
        ordered = sorted(self.claims, key=lambda claims: claims.backlog)
        return ordered[-1].p99_ms / ordered[0].p99_ms


def _line(name: str, batch: int, samples: Sequence[contest.Sample]) -> Line:
    mine = [s for s in samples if s.contestant == name and s.batch == batch]
    good = [s for s in mine if s.problem is None]
    rates = [s.jobs_per_second for s in good] or [0.0]

    def median(values: list[float]) -> float:
        return statistics.median(values) if values else 0.0

    return Line(
        contestant=name,
        batch=batch,
        jobs_per_second=median(rates),
        lowest=min(rates),
        highest=max(rates),
        p50_ms=median([s.p50_ms for s in good]),
        p99_ms=median([s.p99_ms for s in good]),
        generator_cores=median([s.generator_cores for s in good]),
        busiest_process=median([s.busiest_process for s in good]),
        problems=tuple(s.problem for s in mine if s.problem),
    )


def header(report: Report) -> str:
    """State what was measured, on what, and how."""
    plan, server = report.plan, report.server
    settings = ", ".join(f"{name} {value}" for name, value in sorted(server.settings.items()))
    lines = [
        f"PostgreSQL {server.version}, {settings}; {os.cpu_count()} cores for server and load.",
        f"{plan.producers} producers and {plan.workers} workers, each a process of its own.",
        "batch: jobs enqueued in one transaction, and taken by a worker at a time.",
        f"jobs/s: enqueued, taken, durably completed with a result row; median of {plan.repeat}.",
        f"p99: from the enqueuing call to the completing commit, at an even {plan.rate:g} jobs/s.",
        "load: cores that producers and workers used; ! where one of them had no time left. A",
        "library's own workers are a part of its price.",
    ]
    if not server.durable:
        lines.append("NOT DURABLE: commits do not wait for the disk here, so nothing is proven.")
    return "\n".join(lines)


def contest_table(report: Report) -> table.Table:
    """Show every contestant at every batch size."""
    grid = table.Table(title="Queue benchmark", header_style="bold")
    for name in ("batch", "contestant", "jobs/s", "lowest", "highest", "ours", "p99 ms", "load"):
        side: Literal["left", "right"] = "left" if name == "contestant" else "right"
        grid.add_column(name, justify=side, no_wrap=True)
    for batch in report.plan.batches:
        for line in report.lines(batch):
            grid.add_row(
                *_row(report, line), style="bold" if line.contestant == contestants.OURS else ""
            )
        grid.add_section()
    return grid


def _row(report: Report, line: Line) -> list[str]:
    if not line.jobs_per_second:
        return [str(line.batch), line.contestant, "failed", *[""] * 5]
    ratio = None if line.contestant == contestants.OURS else report.ratio(line)
    busy = "!" if line.busiest_process > _BUSY else ""
    return [
        str(line.batch),
        line.contestant,
        f"{line.jobs_per_second:,.0f}",
        f"{line.lowest:,.0f}",
        f"{line.highest:,.0f}",
        "" if ratio is None else f"{ratio:.2f} x",
        f"{line.p99_ms:.1f}",
        f"{line.generator_cores:.2f}{busy}",
    ]


def claims_table(report: Report) -> table.Table:
    """Show how long a claim takes at each backlog."""
    grid = table.Table(title="Claim of one document, by documents waiting", header_style="bold")
    for name in ("backlog", "claims", "p50 ms", "p99 ms"):
        grid.add_column(name, justify="right")
    for claims in report.claims:
        grid.add_row(
            f"{claims.backlog:,}",
            f"{claims.claims:,}",
            f"{claims.p50_ms:.2f}",
            f"{claims.p99_ms:.2f}",
        )
    return grid


def verdict(report: Report) -> text.Text:
    """Say in a few lines whether we are ahead."""
    lines = [(f"Failed: {problem}", "red") for problem in report.problems]
    leads = {batch: report.lead(batch) for batch in report.plan.batches}
    for batch, lead in leads.items():
        if lead is not None:
            ratio, peer = lead
            style = "green" if ratio >= _AIM else "yellow" if ratio > 1 else "red"
            lines.append((f"Batch {batch}: {ratio:.2f} times the best peer ({peer}).", style))
    if all(lead is not None and lead[0] > 1 for lead in leads.values()):
        lines.append(("Ahead of every peer at every batch size.", "green"))
    else:
        lines.append(("Not ahead of every peer at every batch size.", "red"))
    if (growth := report.growth) is not None:
        ok = growth < _GROWTH_ALLOWED
        words = f"A claim's p99 grows {growth:.2f} times (allowed: less than {_GROWTH_ALLOWED})."
        lines.append((words, "green" if ok else "red"))
    return text.Text("\n").join(text.Text(words, style) for words, style in lines)


def to_json(report: Report) -> str:
    """Write down the raw figures and what was made of them."""
    content = {
        "server": dataclasses.asdict(report.server),
        "plan": dataclasses.asdict(report.plan),
        "lines": [
            dataclasses.asdict(line) | {"ours_to_it": report.ratio(line)}
            for batch in report.plan.batches
            for line in report.lines(batch)
        ],
        "samples": [dataclasses.asdict(sample) for sample in report.samples],
        "claims": [dataclasses.asdict(claims) for claims in report.claims],
        "claims_p99_growth": report.growth,
        "problems": report.problems,
    }
    return json.dumps(content, indent=2)
