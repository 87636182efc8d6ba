"""pagewarden bench volumes: the stages of volumes, against the truth and the one-pass reader."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PARTS", "command"]

PARTS = {
    "lines": "how many lines of the truth are found, beside the bare detection model",
    "curves": "text of curved and skewed pages, with and without dewarping",
    "text": "text of the stages beside that of the one-pass reader",
    "cost": "pages/s and processor time of each stage, beside the one-pass reader",
    "scaling": "pages/s of each stage with one worker and with two, and the database between them",
    "memory": "peaks of memory at 100 and at more pages, with an engine that takes no time",
}
_NEED_CORPUS = frozenset(PARTS) - {"memory"}


def command(
    *,
    parts: Annotated[
        list[str] | None, typer.Option("--part", metavar="NAME,…", help=f"Of {', '.join(PARTS)}.")
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            envvar="PAGEWARDEN_CORPUS",
            help="Folder of pages with their true text and a MANIFEST.tsv.",
        ),
    ] = None,
    pages: Annotated[
        int | None, typer.Option(min=1, help="Only so many pages, evenly over the corpus.")
    ] = None,
    many: Annotated[int, typer.Option(min=100, help="Pages of the volume for memory.")] = 2000,
) -> None:
    """Measure the stages of volumes: lines found, text, speed, memory."""
    chosen = _choose(parts)
    if corpus is None and _NEED_CORPUS.intersection(chosen):
        raise errors.SettingsError("give a folder with --corpus, or ask for --part memory only")
    # What it needs takes a second to load and is not installed with every Pagewarden.
    measuring = importlib.import_module("pagewarden.bench.volumes.measuring")
    measuring.run(chosen, corpus, pages=pages, many=many)


def _choose(given: Sequence[str] | None) -> Sequence[str]:
    chosen = [name.strip() for part in given or () for name in part.split(",")]
    for name in chosen:
        if name not in PARTS:
            raise errors.SettingsError(f"there is no part {name!r}; choose of {', '.join(PARTS)}")
    return chosen or list(PARTS)
