"""python -m benchmarks chaos: a whole system under fire, and a referee who sees what goes wrong."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(  # noqa: PLR0913  # each is an option
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the fire lasts.")] = 10.0,
    documents: Annotated[
        int, typer.Option(min=10, help="How many documents are brought in at most.")
    ] = 20_000,
    seed: Annotated[
        int | None, typer.Option(help="Chance that is the same each time. Default: a new one.")
    ] = None,
    broken: Annotated[
        str | None,
        typer.Option(
            "--break",
            help="Break the build on purpose: fencing, tokens or heartbeat. It must be noticed.",
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
        Path | None, typer.Option(metavar="FOLDER", help="Keep what the programs say in here.")
    ] = None,
) -> None:
    """Kill, stop and cut off the parts of a system of its own while it reads documents.

    Exit code 1: something happened that must not; it is named.
    """
    # What it needs takes a second to load and is not installed with every Pagewarden.
    report_module = importlib.import_module("benchmarks.chaos.report")
    chosen = report_module.plan(minutes=minutes, documents=documents, seed=seed, broken=broken)
    if not report_module.run(chosen, report=report, output=output, logs=logs):
        raise typer.Exit(1)
