"""python -m benchmarks ocr: accuracy and speed of our engines and of other OCR software."""

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


def require_packages() -> None:
    """Raise SettingsError if a peer is not installed: a comparison needs all of them."""
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
            help="Folder of pages with their ground truth and a MANIFEST.tsv.",
        ),
    ],
    pages: Annotated[
        int | None, typer.Option(min=1, help="Number of pages, sampled evenly. Default: all.")
    ] = None,
    contestants: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help=f"Subset of {', '.join(ALL)}."),
    ] = None,
    profile_times: Annotated[
        bool, typer.Option("--profile-times", help="Also measure the time of each step.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Compare accuracy and speed with RapidOCR, Tesseract and OCRmyPDF."""
    require_packages()
    names = _parse_names(contestants)
    # Slow to load, and not installed with every Pagewarden.
    run = importlib.import_module("benchmarks.ocr.run")
    figures = run.run(corpus, names, pages=pages, profile_times=profile_times)
    if output is not None:
        output.write_text(figures, encoding="utf-8")


def _parse_names(options: Sequence[str] | None) -> Sequence[str]:
    names = [name.strip() for option in options or () for name in option.split(",")]
    for name in names:
        if name not in ALL:
            raise errors.SettingsError(f"unknown contestant {name!r}; choose from {', '.join(ALL)}")
    return names or ALL
