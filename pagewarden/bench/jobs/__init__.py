"""pagewarden bench jobs: how soon a check job is taken in, and whether many at once all end."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    submissions: Annotated[
        int, typer.Option(min=5, help="How many jobs are submitted one after another, and timed.")
    ] = 100,
    images: Annotated[int, typer.Option(min=1, help="Pictures of each of them.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs are submitted at once.")] = 500,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Submit check jobs to a system of its own: timed one by one, then many at once.

    The engine takes the same time for every picture, so what is measured is everything else.
    """
    # What it needs takes a second to load and is not installed with every Pagewarden.
    measuring = importlib.import_module("pagewarden.bench.jobs.measuring")
    found = measuring.run(submissions=submissions, images=images, jobs=jobs)
    if output is not None:
        output.write_text(found, encoding="utf-8")
