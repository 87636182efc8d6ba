"""Report the samples as tables, a verdict and JSON."""

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


# Above this CPU share a process of the load generator may have limited the throughput.
_BUSY_SHARE = 0.9

_MAX_GROWTH = 1.5
_TARGET_RATIO = 2.0


@dataclass(frozen=True, slots=True)
class Summary:
    """One contestant at one batch size: medians over the successful rounds."""

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
    """All measurements."""

    server: databases.Server
    plan: contest.Plan
    samples: Sequence[contest.Sample]
    claims: Sequence[contest.ClaimTimes]

    @property
    def problems(self) -> list[str]:
        """List the failed rounds with their problems."""
        return [
            f"{sample.contestant}, batch {sample.batch}: {sample.problem}"
            for sample in self.samples
            if sample.problem
        ]

    def summarize(self, batch: int) -> list[Summary]:
        """Summarize the contestants at a batch size: ours first, then the peers by speed."""
        names = dict.fromkeys(sample.contestant for sample in self.samples)
        summaries = [_summarize(name, batch, self.samples) for name in names]
        return sorted(
            summaries, key=lambda each: (each.contestant != contestants.OURS, -each.jobs_per_second)
        )

    def ratio(self, peer: Summary) -> float | None:
        """Return our jobs per second divided by those of a peer; None if either has none."""
        summaries = self.summarize(peer.batch)
        ours = next((each for each in summaries if each.contestant == contestants.OURS), None)
        if ours is None or not ours.jobs_per_second or not peer.jobs_per_second:
            return None
        return ours.jobs_per_second / peer.jobs_per_second

    def lead(self, batch: int) -> tuple[float, str] | None:
        """Return our smallest ratio at a batch size, and the peer's name."""
        ratios = [
            (ratio, peer.contestant)
            for peer in self.summarize(batch)
            if peer.contestant != contestants.OURS and (ratio := self.ratio(peer)) is not None
        ]
        return min(ratios, default=None)

    @property
    def growth(self) -> float | None:
        """Return a claim's p99 at the largest backlog divided by that at the smallest."""
        if len(self.claims) < 2:
            return None
        ordered = sorted(self.claims, key=lambda claims: claims.backlog)
        return ordered[-1].p99_ms / ordered[0].p99_ms


def _summarize(name: str, batch: int, samples: Sequence[contest.Sample]) -> Summary:
    rounds = [s for s in samples if s.contestant == name and s.batch == batch]
    successful = [s for s in rounds if s.problem is None]
    rates = [s.jobs_per_second for s in successful] or [0.0]

    def median(values: list[float]) -> float:
        return statistics.median(values) if values else 0.0

    return Summary(
        contestant=name,
        batch=batch,
        jobs_per_second=median(rates),
        lowest=min(rates),
        highest=max(rates),
        p50_ms=median([s.p50_ms for s in successful]),
        p99_ms=median([s.p99_ms for s in successful]),
        generator_cores=median([s.generator_cores for s in successful]),
        busiest_process=median([s.busiest_process for s in successful]),
        problems=tuple(s.problem for s in rounds if s.problem),
    )


def make_header(report: Report) -> str:
    """Describe the server and the columns of the tables."""
    plan, server = report.plan, report.server
    settings = ", ".join(f"{name} {value}" for name, value in sorted(server.settings.items()))
    lines = [
        f"PostgreSQL {server.version}, {settings}; {os.cpu_count()} cores for server and load.",
        f"{plan.producers} producers and {plan.workers} workers, each in its own process.",
        "batch: jobs enqueued per transaction, and claimed at a time by a worker.",
        f"jobs/s: enqueued, claimed, durably completed with a result row; median of {plan.repeat}.",
        f"p99: from the enqueuing call to the completing commit, at a steady {plan.rate:g} jobs/s.",
        "load: cores used by producers and workers; ! if one of them was at its limit. The CPU",
        "time of a library's own workers is part of its cost.",
    ]
    if not server.is_durable:
        lines.append("NOT DURABLE: commits do not wait for the disk, so the figures do not count.")
    return "\n".join(lines)


def make_contest_table(report: Report) -> table.Table:
    """Make a table of all contestants at all batch sizes."""
    grid = table.Table(title="Queue benchmark", header_style="bold")
    for name in ("batch", "contestant", "jobs/s", "lowest", "highest", "ours", "p99 ms", "load"):
        side: Literal["left", "right"] = "left" if name == "contestant" else "right"
        grid.add_column(name, justify=side, no_wrap=True)
    for batch in report.plan.batches:
        for summary in report.summarize(batch):
            style = "bold" if summary.contestant == contestants.OURS else ""
            grid.add_row(*_make_row(report, summary), style=style)
        grid.add_section()
    return grid


def _make_row(report: Report, summary: Summary) -> list[str]:
    if not summary.jobs_per_second:
        return [str(summary.batch), summary.contestant, "failed", *[""] * 5]
    ratio = None if summary.contestant == contestants.OURS else report.ratio(summary)
    busy = "!" if summary.busiest_process > _BUSY_SHARE else ""
    return [
        str(summary.batch),
        summary.contestant,
        f"{summary.jobs_per_second:,.0f}",
        f"{summary.lowest:,.0f}",
        f"{summary.highest:,.0f}",
        "" if ratio is None else f"{ratio:.2f} x",
        f"{summary.p99_ms:.1f}",
        f"{summary.generator_cores:.2f}{busy}",
    ]


def make_claims_table(report: Report) -> table.Table:
    """Make a table of the time of a claim at each backlog."""
    grid = table.Table(title="Claim of one document, by backlog", header_style="bold")
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


def make_verdict(report: Report) -> text.Text:
    """Return a few lines on whether we are faster than all peers."""
    lines = [(f"Failed: {problem}", "red") for problem in report.problems]
    leads = {batch: report.lead(batch) for batch in report.plan.batches}
    for batch, lead in leads.items():
        if lead is not None:
            ratio, peer = lead
            style = "green" if ratio >= _TARGET_RATIO else "yellow" if ratio > 1 else "red"
            lines.append((f"Batch {batch}: {ratio:.2f} times the best peer ({peer}).", style))
    if all(lead is not None and lead[0] > 1 for lead in leads.values()):
        lines.append(("Faster than every peer at every batch size.", "green"))
    else:
        lines.append(("Not faster than every peer at every batch size.", "red"))
    if (growth := report.growth) is not None:
        ok = growth < _MAX_GROWTH
        sentence = f"p99 of a claim grows by a factor of {growth:.2f} (limit: {_MAX_GROWTH})."
        lines.append((sentence, "green" if ok else "red"))
    return text.Text("\n").join(text.Text(line, style) for line, style in lines)


def to_json(report: Report) -> str:
    """Return raw figures and results as JSON."""
    content = {
        "server": dataclasses.asdict(report.server),
        "plan": dataclasses.asdict(report.plan),
        "lines": [
            dataclasses.asdict(summary) | {"ours_to_it": report.ratio(summary)}
            for batch in report.plan.batches
            for summary in report.summarize(batch)
        ],
        "samples": [dataclasses.asdict(sample) for sample in report.samples],
        "claims": [dataclasses.asdict(claims) for claims in report.claims],
        "claims_p99_growth": report.growth,
        "problems": report.problems,
    }
    return json.dumps(content, indent=2)
