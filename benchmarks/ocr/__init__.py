"""python -m benchmarks ocr: our engines, RapidOCR, Tesseract and OCRmyPDF on the same pages."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Sequence


PROFILES = ("fast", "balanced", "accurate")
ENGINES = ("rapid", "tesseract")
RAPIDOCR = "RapidOCR"
TESSERACT = "Tesseract"
OCRMYPDF = "OCRmyPDF"
BARE_ENGINES = (RAPIDOCR, TESSERACT)
PEERS = (*BARE_ENGINES, OCRMYPDF)
ALL = (*PROFILES, *ENGINES, *PEERS)

_PACKAGES = ("ocrmypdf", "psutil", "rapidfuzz", "tesserocr")


def require() -> None:
    """Refuse to start when a peer is not installed: a contest without it would prove nothing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise errors.SettingsError(
            f"not installed: {', '.join(missing)}; install with pip install pagewarden[bench]"
        )


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
        typer.Option(metavar="NAME,…", help=f"Only some of {', '.join(ALL)}."),
    ] = None,
    profile_times: Annotated[
        bool, typer.Option("--profile-times", help="Also measure what straightening takes.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure how well and how fast we read, beside RapidOCR, Tesseract and OCRmyPDF."""
    require()
    chosen = _choose(contestants)
    # What it needs takes a second to load and is not installed with every Pagewarden.
    run = importlib.import_module("benchmarks.ocr.run")
    found = run.run(corpus, chosen, pages=pages, profile_times=profile_times)
    if output is not None:
        output.write_text(found, encoding="utf-8")


def _choose(given: Sequence[str] | None) -> Sequence[str]:
    chosen = [name.strip() for part in given or () for name in part.split(",")]
    for name in chosen:
        if name not in ALL:
            raise errors.SettingsError(
                f"there is no contestant {name!r}; choose of {', '.join(ALL)}"
            )
    return chosen or ALL
