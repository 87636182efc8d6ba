"""python -m benchmarks checks: precision and recall of checks on images with planted errors."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    pictures: Annotated[int, typer.Option(min=1, help="Number of images.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the random images.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the images in this folder.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("-j", min=1, help="Number of processes. Default: number of cores.")
    ] = None,
) -> None:
    """Check drawn screens with planted errors in ten languages; measure precision and recall."""
    run = importlib.import_module("benchmarks.checks.run")
    run.run(pictures=pictures, seed=seed, keep=keep, processes=processes)
