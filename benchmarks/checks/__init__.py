"""python -m benchmarks checks: pictures with planted faults, and how many of them are found."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    pictures: Annotated[int, typer.Option(min=1, help="Pictures that are drawn.")] = 200,
    seed: Annotated[int, typer.Option(help="Another one gives other pictures.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the pictures in this folder.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("-j", min=1, help="Processes. Default: one for each core.")
    ] = None,
) -> None:
    """Draw screens in ten languages, plant faults, and measure which of them a check finds."""
    run = importlib.import_module("benchmarks.checks.run")
    run.run(pictures=pictures, seed=seed, keep=keep, processes=processes)
