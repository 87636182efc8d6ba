"""The whole benchmark: one contestant after the other, each alone on the machine."""

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


def run(folder: Path, chosen: Sequence[str], *, pages: int | None, profile_times: bool) -> str:
    """Measure, show the tables, and give everything as JSON."""
    console = consoles.Console()
    found = corpus.load(folder)
    found = corpus.sample(found, pages or len(found))
    columns = (*progress.Progress.get_default_columns(), progress.MofNCompleteColumn())
    with progress.Progress(*columns, console=console, transient=True) as bar:
        results = _hold(folder, found, chosen, bar)
        steps = _time(corpus.sample(found, contest.STEP_PAGES), bar) if profile_times else {}
    whole = report.Report(found, results, steps)
    for part in report.parts(whole):
        console.print(part, highlight=False)
    return report.to_json(whole)


def _hold(
    folder: Path, pages: Sequence[corpus.Page], chosen: Sequence[str], bar: progress.Progress
) -> list[contest.Result]:
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as name:
        places = (folder, Path(name))
        contest.make_scans(pages, places[1])
        results = []
        for each in chosen:
            announce = _announcer(bar, each, len(pages))
            results.append(asyncio.run(contest.hold(each, pages, places, announce)))
            # The whole takes long; whoever stops it has seen what was there by then.
            bar.console.print(report.brief(pages, results[-1]), highlight=False)
        return results


def _time(pages: Sequence[corpus.Page], bar: progress.Progress) -> dict[str, Mapping[str, float]]:
    return {
        profile: contest.time_steps(
            "cascade", profile, pages, _announcer(bar, f"steps of {profile}", len(pages))
        )
        for profile in ocr.PROFILES
    }


def _announcer(bar: progress.Progress, title: str, total: int) -> Callable[[str], None]:
    task = bar.add_task(title, total=total)
    return lambda _page: bar.advance(task)
