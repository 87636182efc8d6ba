"""python -m benchmarks volumes: the stages, against the truth and the one-pass reader."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks.ocr import corpus
from benchmarks.volumes import accuracy, detection, dewarping, memory, scaling
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
    _run(chosen, corpus, pages=pages, many=many)


def _choose(given: Sequence[str] | None) -> Sequence[str]:
    chosen = [name.strip() for part in given or () for name in part.split(",")]
    for name in chosen:
        if name not in PARTS:
            raise errors.SettingsError(f"there is no part {name!r}; choose of {', '.join(PARTS)}")
    return chosen or list(PARTS)


def _run(parts: Sequence[str], folder: Path | None, *, pages: int | None, many: int) -> None:
    """Measure, and show a table for each part as soon as there is one."""
    out = Console(highlight=False)
    known = corpus.load(folder) if folder is not None else []
    chosen = corpus.sample(known, pages or len(known))
    tables = {
        "lines": lambda: detection.table(chosen),
        "curves": lambda: dewarping.table(chosen),
        "text": lambda: accuracy.text_table(chosen),
        "cost": lambda: accuracy.cost_table(chosen),
        "scaling": lambda: scaling.table(chosen),
        "memory": lambda: memory.table(many),
    }
    for part in parts:
        with out.status(f"measuring {part}"):
            made = tables[part]()
        out.print(made)
