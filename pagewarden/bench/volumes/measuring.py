"""The whole benchmark: one part after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from pagewarden.bench.ocr import corpus
from pagewarden.bench.volumes import agreeing, costing, dewarping, finding, remembering, scaling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def run(parts: Sequence[str], folder: Path | None, *, pages: int | None, many: int) -> None:
    """Measure, and show a table for each part as soon as there is one."""
    out = Console(highlight=False)
    known = corpus.load(folder) if folder is not None else []
    chosen = corpus.sample(known, pages or len(known))
    tables = {
        "lines": lambda: finding.table(chosen),
        "curves": lambda: dewarping.table(chosen),
        "text": lambda: agreeing.table(chosen),
        "cost": lambda: costing.table(chosen),
        "scaling": lambda: scaling.table(chosen),
        "memory": lambda: remembering.table(many),
    }
    for part in parts:
        with out.status(f"measuring {part}"):
            made = tables[part]()
        out.print(made)
