"""python -m benchmarks pool: a simulation of several days, and real programs with a database."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    days: Annotated[int, typer.Option(min=1, help="Number of simulated days.")] = 5,
    documents: Annotated[
        int, typer.Option(min=100, help="Number of registry documents for real programs.")
    ] = 20_000,
    simulation_only: Annotated[
        bool, typer.Option("--simulation-only", help="Skip the measurement of real programs.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Compare the pool with a fixed split in a simulation, then measure real programs."""
    run = importlib.import_module("benchmarks.pool.run")
    figures = run.run(days=days, documents=documents, simulation_only=simulation_only)
    if output is not None:
        output.write_text(figures, encoding="utf-8")
