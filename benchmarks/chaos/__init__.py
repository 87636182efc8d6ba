"""python -m benchmarks chaos: faults in a complete system, and checks of its invariants."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(  # noqa: PLR0913  # each is an option
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="Duration of the faults.")] = 10.0,
    documents: Annotated[int, typer.Option(min=10, help="Maximum number of uploads.")] = 20_000,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random faults. Default: a new one.")
    ] = None,
    broken: Annotated[
        str | None,
        typer.Option(
            "--break",
            help="Remove a safeguard, which must be detected: fencing, tokens or heartbeat.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report to this file, as Markdown."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all figures to this file, as JSON."),
    ] = None,
    logs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the logs of the programs.")
    ] = None,
) -> None:
    """Kill, suspend and disconnect the parts of a temporary system while it reads documents.

    Exit code 1: an invariant was violated; the report names it.
    """
    # Slow to load, and not installed with every Pagewarden.
    report_module = importlib.import_module("benchmarks.chaos.report")
    plan = report_module.make_plan(minutes=minutes, documents=documents, seed=seed, broken=broken)
    if not report_module.run(plan, report=report, output=output, logs=logs):
        raise typer.Exit(1)
