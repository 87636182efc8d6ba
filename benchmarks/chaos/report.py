"""The output of a run: progress, tables, JSON, and a report in Markdown."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import json
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.chaos import plan as plans
from benchmarks.chaos import run as runs

if TYPE_CHECKING:
    from collections.abc import Iterator


_QUIET_SHARE = 0.15
_MIN_QUIET_SECONDS = 20.0
_MAX_PRINTED = 20
_MAX_SEED = 1_000_000

out = Console(highlight=False)


def make_plan(
    *, minutes: float, documents: int, seed: int | None, broken: str | None
) -> plans.Plan:
    """Make the plan of a run; for a broken build, with the faults that reveal it."""
    if broken is not None and broken not in plans.BREAKS:
        raise typer.BadParameter(f"unknown build {broken!r}; choose {', '.join(plans.BREAKS)}")
    plan = plans.Plan(
        seed=secrets.randbelow(_MAX_SEED) if seed is None else seed,
        fire_seconds=60 * minutes,
        quiet_seconds=max(_MIN_QUIET_SECONDS, _QUIET_SHARE * 60 * minutes),
        documents=documents,
        broken=broken,
    )
    if broken is None:
        return plan
    return dataclasses.replace(
        plan,
        quiet_seconds=0.0,
        slow_share=plans.TARGETED_SLOW_SHARE,
        disturbances=plans.TARGETED_FAULTS,
    )


def run(plan: plans.Plan, *, report: Path | None, output: Path | None, logs: Path | None) -> bool:
    """Execute a run and report it; return whether there were no violations."""
    out.print(f"seed {plan.seed}" + (f", without {plan.broken}" if plan.broken else ""))
    with tempfile.TemporaryDirectory(prefix="pagewarden-chaos-") as folder:
        log_folder = logs or Path(folder)
        log_folder.mkdir(parents=True, exist_ok=True)
        result = asyncio.run(runs.execute(plan, log_folder, _announce))
    _print(result)
    if output is not None:
        output.write_text(json.dumps(to_json(result), indent=1), encoding="utf-8")
    if report is not None:
        report.write_text(to_markdown(result), encoding="utf-8")
    return not result.violations


def to_json(result: runs.Result) -> dict[str, Any]:
    """Return all figures as JSON values."""
    plain = dataclasses.asdict(dataclasses.replace(result, plan=None))  # type: ignore[arg-type]
    plan = {
        field.name: _to_plain(getattr(result.plan, field.name))
        for field in dataclasses.fields(result.plan)
    }
    return {**plain, "plan": plan, "share": result.share}


def _to_plain(value: object) -> object:
    return dict(value) if isinstance(value, collections.abc.Mapping) else value


def _announce(line: str) -> None:
    out.print(f"[dim]{dt.datetime.now(dt.UTC):%H:%M:%S}[/] {line}")


def _print(result: runs.Result) -> None:
    table = Table("chaos run", "")
    for title, value in _rows(result):
        table.add_row(title, value)
    out.print(table)
    faults = Table("fault or action", "count")
    for name, count in result.disturbances.items():
        faults.add_row(name, str(count))
    out.print(faults)
    if not result.violations:
        out.print("[green]no violations[/]")
        return
    counts = collections.Counter(violation.rule for violation in result.violations)
    out.print(f"[red]{len(result.violations)} violations[/]")
    for rule, count in counts.most_common():
        out.print(f"  {count} times: {rule}")
    for violation in list(dict.fromkeys(result.violations))[:_MAX_PRINTED]:
        line = f"    {violation.rule}: {violation.document or '-'}: {violation.detail}"
        out.print(line, markup=False)


def _rows(result: runs.Result) -> Iterator[tuple[str, str]]:
    yield "seed", str(result.plan.seed)
    yield "seconds with faults", f"{result.seconds:.0f}"
    settled = result.settled_seconds
    yield "seconds to settle", "aborted" if settled is None else f"{settled:.0f}"
    yield (
        "documents",
        f"{result.documents:,}, {result.jobs:,} of them check jobs with several images",
    )
    yield "final status", _format_counts(result.statuses)
    yield "completed per second, without faults", f"{result.quiet_per_second:.1f}"
    yield "completed per second, with faults", f"{result.fire_per_second:.1f} ({result.share:.0%})"
    yield (
        "seconds until a dead worker's document is claimed again",
        _format_distribution(result.recoveries),
    )
    yield "the same during outages of Postgres", _format_distribution(result.recoveries_in_outages)
    yield "claims", f"{result.work.claims:,}: {_format_counts(result.work.ends)}"
    yield "claims with lost work", f"{result.work.wasted:.1%}"
    yield "pages saved again", f"{result.work.pages_again} of {result.work.pages:,}"
    yield "responses to clients", _format_counts(result.answers)
    yield "user actions", _format_counts(result.acts)
    yield "starts of programs", _format_counts(result.starts)
    ended = collections.Counter(result.ended_by_themselves)
    yield "programs that ended by themselves", _format_counts(ended) or "none"
    yield "disk", "separate" if result.has_disk else "not separate, never filled (needs root)"
    yield "checks of the database's invariants", str(result.looks)


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _format_distribution(seconds: runs.Distribution) -> str:
    if not seconds.count:
        return "none"
    return (
        f"{seconds.count}: p50 {seconds.p50:.1f}, p99 {seconds.p99:.1f}, max {seconds.longest:.1f}"
    )


def to_markdown(result: runs.Result) -> str:
    """Format a section for docs/explanation/reliability.md."""
    plan = result.plan
    broken = f" --break {plan.broken}" if plan.broken else ""
    options = f"--minutes {plan.fire_seconds / 60:g} --seed {plan.seed}"
    lines = [f"`python -m benchmarks chaos {options}{broken}`", "", "| | |", "|---|---|"]
    lines += [f"| {title} | {value} |" for title, value in _rows(result)]
    lines.append(f"| **violations** | **{len(result.violations) or 'none'}** |")
    lines += ["", "| fault or action | count |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in result.disturbances.items()]
    counts = collections.Counter(violation.rule for violation in result.violations)
    if counts:
        lines += ["", "| violated rule | count |", "|---|---|"]
        lines += [f"| {rule} | {count} |" for rule, count in counts.most_common()]
    return "\n".join([*lines, ""])
