"""pagewarden bench dashboard: how soon every page answers when there is much to show."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import Annotated

import typer

__all__ = ["command"]


def command(
    *,
    documents: Annotated[
        int, typer.Option(min=1000, help="How many documents there are; a twentieth is dead.")
    ] = 100_000,
    rounds: Annotated[int, typer.Option(min=2, help="How often each page is fetched.")] = 40,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure how soon every page of the dashboard answers, in a system of its own."""
    measuring = importlib.import_module("pagewarden.bench.dashboard.measuring")
    found = measuring.run(documents=documents, rounds=rounds)
    if output is not None:
        output.write_text(found, encoding="utf-8")
