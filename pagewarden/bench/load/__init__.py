"""pagewarden bench load: uploads, questions and pages together, to the knee and for long."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    documents: Annotated[
        int, typer.Option(min=100, help="How many documents the database has before.")
    ] = 1_000_000,
    step_seconds: Annotated[
        float, typer.Option(min=1, help="How long each rate lasts on the way to the knee.")
    ] = 15,
    minutes: Annotated[
        float, typer.Option(min=0, help="How long half of that is kept up, to see memory.")
    ] = 60,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Load a system of its own to the knee and for long, with a full database.

    Of a hundred requests 10 are uploads, 60 ask how far a document is, 30 open a page of the
    dashboard. They come at random moments, so many a second, whether or not earlier ones were
    answered; the rate grows until 1 of 100 takes more than half a second. Then half of that is
    kept up, and the memory of every process is looked at.
    """
    # What it needs takes a second to load and is not installed with every Pagewarden.
    measuring = importlib.import_module("pagewarden.bench.load.measuring")
    found = measuring.run(documents=documents, step_seconds=step_seconds, minutes=minutes)
    if output is not None:
        output.write_text(found, encoding="utf-8")
