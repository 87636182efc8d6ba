"""Run the whole benchmark: one contestant at a time."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich import console as consoles
from rich import progress

from benchmarks import ocr
from benchmarks.ocr import contest, corpus, report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def run(folder: Path, names: Sequence[str], *, pages: int | None, profile_times: bool) -> str:
    """Measure, print the tables, and return all figures as JSON."""
    console = consoles.Console()
    every_page = corpus.load(folder)
    chosen = corpus.sample(every_page, pages or len(every_page))
    columns = (*progress.Progress.get_default_columns(), progress.MofNCompleteColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        results = _run_contestants(folder, chosen, names, bar)
        steps = _time_steps(corpus.sample(chosen, contest.STEP_PAGES), bar) if profile_times else {}
    result = report.Report(chosen, results, steps)
    for part in report.make_parts(result):
        console.print(part, highlight=False)
    return report.to_json(result)


def _run_contestants(
    folder: Path, pages: Sequence[corpus.Page], names: Sequence[str], bar: progress.Progress
) -> list[contest.Result]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as scans:
        folders = (folder, Path(scans))
        contest.make_scans(pages, folders[1])
        results = []
        for name in names:
            announce = _add_task(bar, name, len(pages))
            results.append(asyncio.run(contest.run_contestant(name, pages, folders, announce)))
            # The benchmark takes long; if it is interrupted, these results have been printed.
            bar.console.print(report.summarize(pages, results[-1]), highlight=False)
        return results


def _time_steps(
    pages: Sequence[corpus.Page], bar: progress.Progress
) -> dict[str, Mapping[str, float]]:
    return {
        profile: contest.time_steps(
            "cascade", profile, pages, _add_task(bar, f"steps of {profile}", len(pages))
        )
        for profile in ocr.PROFILES
    }


def _add_task(bar: progress.Progress, title: str, total: int) -> Callable[[str], None]:
    task = bar.add_task(title, total=total)
    return lambda _page: bar.advance(task)
