"""One contestant in a process of its own: reads the collections, and says so line by line.

    python -m pagewarden.bench.ocr.runner CONTESTANT CORPUS SCANS PAGE…

SCANS is the folder of the scanned PDFs, one of each collection.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pagewarden.bench.ocr import contestants, corpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def collections(pages: Sequence[corpus.Page], scans: Path) -> Iterator[contestants.Collection]:
    """Group the pages, which stand in the order of their collections."""
    for name, group in itertools.groupby(pages, lambda page: page.collection):
        yield contestants.Collection(name, list(group), scans / f"{name}.pdf")


def run(contestant: str, found: Sequence[contestants.Collection], out: TextIO) -> None:
    """Read everything; a line of JSON for each page, and one for each collection."""
    with contestants.CONTESTANTS[contestant]() as read:
        for collection in found:
            begun = time.perf_counter()
            for page, text in zip(collection.pages, read(collection), strict=True):
                _say(out, page=page.name, text=text)
            _say(out, collection=collection.name, seconds=time.perf_counter() - begun)


def _say(out: TextIO, **what: object) -> None:
    out.write(json.dumps(what) + "\n")
    out.flush()


def main() -> None:
    """Do what the command line says."""
    contestant, folder, scans, *names = sys.argv[1:]
    pages = [page for page in corpus.load(Path(folder)) if page.name in names]
    out, sys.stdout = sys.stdout, sys.stderr
    run(contestant, list(collections(pages, Path(scans))), out)


if __name__ == "__main__":
    main()
