"""What is shown of a run: how it goes, tables, JSON, and a report in Markdown."""

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
_LEAST_QUIET_SECONDS = 20.0
_SHOWN = 20
_MOST_SEED = 1_000_000

out = Console(highlight=False)


def plan(*, minutes: float, documents: int, seed: int | None, broken: str | None) -> plans.Plan:
    """Make the plan of a run; one whose build is broken is aimed at what is broken."""
    if broken is not None and broken not in plans.BREAKS:
        raise typer.BadParameter(f"{broken!r} cannot be broken; choose {', '.join(plans.BREAKS)}")
    chosen = plans.Plan(
        seed=secrets.randbelow(_MOST_SEED) if seed is None else seed,
        fire_seconds=60 * minutes,
        quiet_seconds=max(_LEAST_QUIET_SECONDS, _QUIET_SHARE * 60 * minutes),
        documents=documents,
        broken=broken,
    )
    return chosen if broken is None else dataclasses.replace(chosen, **_aimed())


def _aimed() -> dict[str, Any]:
    return {
        "quiet_seconds": 0.0,
        "slow_share": plans.AIMED_SLOW_SHARE,
        "disturbances": plans.AIMED,
    }


def run(chosen: plans.Plan, *, report: Path | None, output: Path | None, logs: Path | None) -> bool:
    """Make a run and show it; tell whether nothing was found."""
    out.print(f"seed {chosen.seed}" + (f", without {chosen.broken}" if chosen.broken else ""))
    with tempfile.TemporaryDirectory(prefix="pagewarden-chaos-") as folder:
        said = logs or Path(folder)
        said.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(runs.execute(chosen, said, _say))
    _show(found)
    if output is not None:
        output.write_text(json.dumps(as_json(found), indent=1), encoding="utf-8")
    if report is not None:
        report.write_text(as_markdown(found), encoding="utf-8")
    return not found.violations


def as_json(found: runs.Found) -> dict[str, Any]:
    """Give everything, for programs."""
    plain = dataclasses.asdict(dataclasses.replace(found, plan=None))  # type: ignore[arg-type]
    plan_of_it = {
        field.name: _plain(getattr(found.plan, field.name))
        for field in dataclasses.fields(found.plan)
    }
    return {**plain, "plan": plan_of_it, "share": found.share}


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, collections.abc.Mapping) else value


def _say(line: str) -> None:
    out.print(f"[dim]{dt.datetime.now(dt.UTC):%H:%M:%S}[/] {line}")


def _show(found: runs.Found) -> None:
    table = Table("a run under fire", "")
    for what, value in _rows(found):
        table.add_row(what, value)
    out.print(table)
    done = Table("done to it", "times")
    for what, times in found.disturbances.items():
        done.add_row(what, str(times))
    out.print(done)
    if not found.violations:
        out.print("[green]no violations[/]")
        return
    counts = collections.Counter(violation.rule for violation in found.violations)
    out.print(f"[red]{len(found.violations)} violations[/]")
    for rule, count in counts.most_common():
        out.print(f"  {count} times: {rule}")
    for one in list(dict.fromkeys(found.violations))[:_SHOWN]:
        out.print(f"    {one.rule}: {one.document or '-'}: {one.detail}", markup=False)


def _rows(found: runs.Found) -> Iterator[tuple[str, str]]:
    yield "seed", str(found.plan.seed)
    yield "seconds of fire", f"{found.seconds:.0f}"
    settled = found.settled_seconds
    yield "seconds until all was at rest", "broken off" if settled is None else f"{settled:.0f}"
    yield "documents", f"{found.documents:,}, {found.jobs:,} of them jobs of several pictures"
    yield "they are now", _listed(found.statuses)
    yield "completed a second, quiet", f"{found.quiet_per_second:.1f}"
    yield "completed a second, under fire", f"{found.fire_per_second:.1f} ({found.share:.0%})"
    yield "back from dead hands, s", _spread(found.recoveries)
    yield "the same while Postgres was away", _spread(found.recoveries_in_outages)
    yield "claims", f"{found.work.claims:,}: {_listed(found.work.ends)}"
    yield "claims whose work was lost", f"{found.work.wasted:.1%}"
    yield "pages saved again", f"{found.work.pages_again} of {found.work.pages:,}"
    yield "answers to clients", _listed(found.answers)
    yield "acts of people", _listed(found.acts)
    yield "starts of programs", _listed(found.starts)
    itself = collections.Counter(found.ended_by_themselves)
    yield "ended by themselves", _listed(itself) or "none"
    yield "disk", "of its own" if found.has_disk else "could not be filled: that takes root"
    yield "looks at the rules of the database", str(found.looks)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _spread(spread: runs.Spread) -> str:
    if not spread.count:
        return "none"
    return (
        f"{spread.count}: p50 {spread.p50:.1f}, p99 {spread.p99:.1f}, longest {spread.longest:.1f}"
    )


def as_markdown(found: runs.Found) -> str:
    """Write a section for docs/reliability.md."""
    chosen = found.plan
    broken = f" --break {chosen.broken}" if chosen.broken else ""
    options = f"--minutes {chosen.fire_seconds / 60:g} --seed {chosen.seed}"
    lines = [f"`python -m benchmarks chaos {options}{broken}`", "", "| | |", "|---|---|"]
    lines += [f"| {what} | {value} |" for what, value in _rows(found)]
    lines.append(f"| **violations** | **{len(found.violations) or 'none'}** |")
    lines += ["", "| done to it | times |", "|---|---|"]
    lines += [f"| {what} | {times} |" for what, times in found.disturbances.items()]
    counts = collections.Counter(violation.rule for violation in found.violations)
    if counts:
        lines += ["", "| violated | times |", "|---|---|"]
        lines += [f"| {rule} | {count} |" for rule, count in counts.most_common()]
    return "\n".join([*lines, ""])
