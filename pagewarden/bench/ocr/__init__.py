"""pagewarden bench ocr: our engines, RapidOCR, Tesseract and OCRmyPDF on the same pages."""

from __future__ import annotations

import importlib
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from pagewarden import errors
from pagewarden.bench.ocr import names

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


def command(
    *,
    corpus: Annotated[
        Path,
        typer.Option(
            envvar="PAGEWARDEN_CORPUS",
            help="Folder of pages with their true text and a MANIFEST.tsv.",
        ),
    ],
    pages: Annotated[
        int | None, typer.Option(min=1, help="Only so many pages, evenly over the corpus.")
    ] = None,
    contestants: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help=f"Only some of {', '.join(names.ALL)}."),
    ] = None,
    profile_times: Annotated[
        bool, typer.Option("--profile-times", help="Also measure what straightening takes.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure how well and how fast we read, beside RapidOCR, Tesseract and OCRmyPDF."""
    names.require()
    chosen = _choose(contestants)
    # What it needs takes a second to load and is not installed with every Pagewarden.
    measuring = importlib.import_module("pagewarden.bench.ocr.measuring")
    found = measuring.run(corpus, chosen, pages=pages, profile_times=profile_times)
    if output is not None:
        output.write_text(found, encoding="utf-8")


def _choose(given: Sequence[str] | None) -> Sequence[str]:
    chosen = [name.strip() for part in given or () for name in part.split(",")]
    for name in chosen:
        if name not in names.ALL:
            raise errors.SettingsError(
                f"there is no contestant {name!r}; choose of {', '.join(names.ALL)}"
            )
    return chosen or names.ALL
