"""pagewarden bench pipeline: how long an upload takes, how soon it is claimed, what all costs."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    corpus: Annotated[
        Path,
        typer.Option(
            envvar="PAGEWARDEN_CORPUS",
            help="Folder of pages; they are read bare and by the system.",
        ),
    ],
    uploads: Annotated[int, typer.Option(min=5, help="How many uploads are timed.")] = 60,
    pages: Annotated[int, typer.Option(min=1, help="How many pages are read.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="How often they are read.")] = 3,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure the way of a document through the whole system, in a system of its own."""
    # What it needs takes a second to load and is not installed with every Pagewarden.
    measuring = importlib.import_module("pagewarden.bench.pipeline.measuring")
    found = measuring.run(corpus, uploads=uploads, pages=pages, rounds=rounds)
    if output is not None:
        output.write_text(found, encoding="utf-8")
