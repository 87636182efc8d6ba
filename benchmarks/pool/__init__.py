"""python -m benchmarks pool: a simulation of days, and real programs on a real database."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    days: Annotated[int, typer.Option(min=1, help="Days that are simulated.")] = 5,
    documents: Annotated[
        int, typer.Option(min=100, help="Registry documents that the pool drains.")
    ] = 20_000,
    simulation_only: Annotated[
        bool, typer.Option("--simulation-only", help="Start no programs.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Compare the pool with a fixed split, then measure real programs on a real database."""
    run = importlib.import_module("benchmarks.pool.run")
    found = run.run(days=days, documents=documents, simulation_only=simulation_only)
    if output is not None:
        output.write_text(found, encoding="utf-8")
