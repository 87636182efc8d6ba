"""Who takes part: ours by way of the whole pipeline, and the peers as their users call them."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

import tesserocr  # type: ignore[import-untyped]  # it ships no types
from PIL import Image

from benchmarks import ocr
from benchmarks.ocr import corpus
from pagewarden.reading import reader
from pagewarden.reading.lines import tess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager


@dataclass(frozen=True, slots=True)
class Collection:
    """Pages of one language, as images and as one scanned PDF."""

    name: str
    pages: Sequence[corpus.Page]
    scan: Path

    @property
    def language(self) -> str:
        """Name the language all its readers are told."""
        return self.pages[0].language


class Reads(Protocol):
    """Reads a collection on all cores; gives the text of each page, in order."""

    def __call__(self, collection: Collection, /) -> Iterator[str]:
        """Read it."""
        ...


@contextmanager
def _ours(engine: str, profile: str = "") -> Iterator[Reads]:
    with asyncio.Runner() as runner:
        reading = reader.Reader(engine=engine, profile=profile)
        runner.run(reading.__aenter__())

        async def read(collection: Collection) -> list[str]:
            languages = [collection.language]
            async with aclosing(reading.read(collection.scan, languages=languages)) as found:
                return [page.text async for page in found]

        try:
            yield lambda collection: iter(runner.run(read(collection)))
        finally:
            runner.run(reading.__aexit__())


@contextmanager
def _rapidocr() -> Iterator[Reads]:
    """Call it as its README does: all defaults, its own threads."""
    from rapidocr import RapidOCR  # noqa: PLC0415  # takes a second, and only one needs it

    engine = RapidOCR()

    def read(collection: Collection) -> Iterator[str]:
        for page in collection.pages:
            found = engine(str(page.path))
            yield "\n".join(getattr(found, "txts", None) or ())

    yield read


@contextmanager
def _tesseract() -> Iterator[Reads]:
    """Have whole pages read at its defaults, by one process per core, each kept warm."""
    os.environ["OMP_THREAD_LIMIT"] = "1"
    with multiprocessing.get_context("fork").Pool() as pool:
        yield lambda collection: pool.imap(
            _read_by_tesseract, [(page.path, page.language) for page in collection.pages]
        )


_loaded: dict[str, tesserocr.PyTessBaseAPI] = {}


def _read_by_tesseract(page: tuple[Path, str]) -> str:
    path, language = page
    if language not in _loaded:
        _loaded[language] = tesserocr.PyTessBaseAPI(
            path=str(tess.folder()), lang=language, psm=tesserocr.PSM.AUTO
        )
    with Image.open(path) as image:
        _loaded[language].SetImage(image)
    return str(_loaded[language].GetUTF8Text())


@contextmanager
def _ocrmypdf() -> Iterator[Reads]:
    yield _read_by_ocrmypdf


def _read_by_ocrmypdf(collection: Collection) -> Iterator[str]:
    """Have the scan made searchable on all cores, and take the text it writes beside it."""
    text = collection.scan.with_suffix(".txt")
    command = [sys.executable, "-m", "ocrmypdf", "--quiet", "--force-ocr"]
    # On a busy machine it would else give up on a page after three minutes, and leave it empty.
    command += ["--tesseract-timeout", "3600"]
    command += ["--jobs", str(os.cpu_count()), "-l", collection.language, "--sidecar", str(text)]
    subprocess.run(
        [*command, str(collection.scan), str(collection.scan.with_suffix(".out.pdf"))], check=True
    )
    yield from text.read_text(encoding="utf-8").split("\f")[: len(collection.pages)]


CONTESTANTS: Mapping[str, Callable[[], AbstractContextManager[Reads]]] = {
    **{profile: functools.partial(_ours, "cascade", profile) for profile in ocr.PROFILES},
    **{engine: functools.partial(_ours, engine) for engine in ocr.ENGINES},
    ocr.RAPIDOCR: _rapidocr,
    ocr.TESSERACT: _tesseract,
    ocr.OCRMYPDF: _ocrmypdf,
}


# The process of a contestant ----------------------------------------------------------------------
# One contestant in a process of its own: reads the collections, and says so line by line.
#
#     python -m benchmarks.ocr.contestants CONTESTANT CORPUS SCANS PAGE…
#
# SCANS is the folder of the scanned PDFs, one of each collection.


def collections(pages: Sequence[corpus.Page], scans: Path) -> Iterator[Collection]:
    """Group the pages, which stand in the order of their collections."""
    for name, group in itertools.groupby(pages, lambda page: page.collection):
        yield Collection(name, list(group), scans / f"{name}.pdf")


def read_collections(contestant: str, found: Sequence[Collection], out: TextIO) -> None:
    """Read everything; a line of JSON for each page, and one for each collection."""
    with CONTESTANTS[contestant]() as read:
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
    read_collections(contestant, list(collections(pages, Path(scans))), out)


if __name__ == "__main__":
    main()
