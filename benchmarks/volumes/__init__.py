"""python -m benchmarks volumes: the stages against ground truth and the one-pass reader."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks.ocr.corpus import load, sample
from benchmarks.volumes import accuracy, detection, dewarping, memory, scaling
from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["PARTS", "command"]

PARTS = {
    "lines": "share of lines found, compared with the bare detection model",
    "curves": "text of curved and skewed pages, with and without dewarping",
    "text": "text of the stages, compared with the one-pass reader",
    "cost": "pages/s and CPU time of each stage, compared with the one-pass reader",
    "scaling": "pages/s of each stage with one worker and with two, with a real database",
    "memory": "peak memory at 100 and at more pages, with the null engine",
}
_NEED_CORPUS = frozenset(PARTS) - {"memory"}


def command(
    *,
    parts: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="NAME,…", help=f"Subset of {', '.join(PARTS)}."),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            envvar="PAGEWARDEN_CORPUS",
            help="Folder of pages with their ground truth and a MANIFEST.tsv.",
        ),
    ] = None,
    pages: Annotated[
        int | None, typer.Option(min=1, help="Number of pages, sampled evenly. Default: all.")
    ] = None,
    many: Annotated[int, typer.Option(min=100, help="Pages of the long volume for memory.")] = 2000,
) -> None:
    """Measure the stages of volumes: detected lines, text, speed, memory."""
    names = _parse_names(parts)
    if corpus is None and _NEED_CORPUS.intersection(names):
        raise errors.SettingsError("pass a folder with --corpus, or only --part memory")
    _run(names, corpus, pages=pages, many=many)


def _parse_names(options: Sequence[str] | None) -> Sequence[str]:
    names = [name.strip() for option in options or () for name in option.split(",")]
    for name in names:
        if name not in PARTS:
            raise errors.SettingsError(f"unknown part {name!r}; choose from {', '.join(PARTS)}")
    return names or list(PARTS)


def _run(parts: Sequence[str], folder: Path | None, *, pages: int | None, many: int) -> None:
    """Measure each part, and print its table immediately."""
    out = Console(highlight=False)
    every_page = load(folder) if folder is not None else []
    chosen = sample(every_page, pages or len(every_page))
    tables = {
        "lines": lambda: detection.make_table(chosen),
        "curves": lambda: dewarping.make_table(chosen),
        "text": lambda: accuracy.make_text_table(chosen),
        "cost": lambda: accuracy.make_cost_table(chosen),
        "scaling": lambda: scaling.make_table(chosen),
        "memory": lambda: memory.make_table(many),
    }
    for part in parts:
        with out.status(f"measuring {part}"):
            table = tables[part]()
        out.print(table)
