"""The contestants: our whole pipeline, and the peers, called as their documentation recommends."""

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
from pagewarden.ocr import reader
from pagewarden.ocr.engines import tesseract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager


@dataclass(frozen=True, slots=True)
class Collection:
    """Pages of one collection, as images and as one scanned PDF."""

    name: str
    pages: Sequence[corpus.Page]
    scan: Path

    @property
    def language(self) -> str:
        """Return the language that every contestant is given."""
        return self.pages[0].language


class ReadCollection(Protocol):
    """Reads a collection on all cores."""

    def __call__(self, collection: Collection, /) -> Iterator[str]:
        """Yield the text of each page, in order."""
        ...


@contextmanager
def _open_ours(engine: str, profile: str = "") -> Iterator[ReadCollection]:
    with asyncio.Runner() as runner:
        our_reader = reader.Reader(engine=engine, profile=profile)
        runner.run(our_reader.__aenter__())

        async def read(collection: Collection) -> list[str]:
            languages = [collection.language]
            async with aclosing(our_reader.read(collection.scan, languages=languages)) as pages:
                return [page.text async for page in pages]

        try:
            yield lambda collection: iter(runner.run(read(collection)))
        finally:
            runner.run(our_reader.__aexit__())


@contextmanager
def _open_rapidocr() -> Iterator[ReadCollection]:
    """Load RapidOCR as its README does: all defaults, its own threads."""
    from rapidocr import RapidOCR  # noqa: PLC0415  # slow to import

    engine = RapidOCR()

    def read(collection: Collection) -> Iterator[str]:
        for page in collection.pages:
            result = engine(str(page.path))
            yield "\n".join(getattr(result, "txts", None) or ())

    yield read


@contextmanager
def _open_tesseract() -> Iterator[ReadCollection]:
    """Start one Tesseract process per core, with default settings and the models kept loaded."""
    os.environ["OMP_THREAD_LIMIT"] = "1"
    with multiprocessing.get_context("fork").Pool() as pool:
        yield lambda collection: pool.imap(
            _read_with_tesseract, [(page.path, page.language) for page in collection.pages]
        )


_loaded: dict[str, tesserocr.PyTessBaseAPI] = {}


def _read_with_tesseract(page: tuple[Path, str]) -> str:
    path, language = page
    if language not in _loaded:
        _loaded[language] = tesserocr.PyTessBaseAPI(
            path=str(tesseract.find_data_folder()), lang=language, psm=tesserocr.PSM.AUTO
        )
    with Image.open(path) as image:
        _loaded[language].SetImage(image)
    return str(_loaded[language].GetUTF8Text())


@contextmanager
def _open_ocrmypdf() -> Iterator[ReadCollection]:
    yield _read_with_ocrmypdf


def _read_with_ocrmypdf(collection: Collection) -> Iterator[str]:
    """Make the scan searchable on all cores; return the text of the sidecar file."""
    text = collection.scan.with_suffix(".txt")
    command = [sys.executable, "-m", "ocrmypdf", "--quiet", "--force-ocr"]
    # By default a page that takes more than three minutes, as on a busy machine, stays empty.
    command += ["--tesseract-timeout", "3600"]
    command += ["--jobs", str(os.cpu_count()), "-l", collection.language, "--sidecar", str(text)]
    subprocess.run(
        [*command, str(collection.scan), str(collection.scan.with_suffix(".out.pdf"))], check=True
    )
    yield from text.read_text(encoding="utf-8").split("\f")[: len(collection.pages)]


CONTESTANTS: Mapping[str, Callable[[], AbstractContextManager[ReadCollection]]] = {
    **{profile: functools.partial(_open_ours, "cascade", profile) for profile in ocr.PROFILES},
    **{engine: functools.partial(_open_ours, engine) for engine in ocr.ENGINES},
    ocr.RAPIDOCR: _open_rapidocr,
    ocr.TESSERACT: _open_tesseract,
    ocr.OCRMYPDF: _open_ocrmypdf,
}


# The process of a contestant ----------------------------------------------------------------------
# Each contestant runs in its own process, which reads the collections and prints results as JSON.
#
#     python -m benchmarks.ocr.contestants CONTESTANT CORPUS SCANS PAGE…
#
# SCANS is the folder of the scanned PDFs, one per collection.


def group_by_collection(pages: Sequence[corpus.Page], scans: Path) -> Iterator[Collection]:
    """Group the pages, which are sorted by collection."""
    for name, group in itertools.groupby(pages, lambda page: page.collection):
        yield Collection(name, list(group), scans / f"{name}.pdf")


def read_collections(contestant: str, collections: Sequence[Collection], out: TextIO) -> None:
    """Read the collections; print a line of JSON for each page and each collection."""
    with CONTESTANTS[contestant]() as read:
        for collection in collections:
            start = time.perf_counter()
            for page, text in zip(collection.pages, read(collection), strict=True):
                _print_json(out, page=page.name, text=text)
            _print_json(out, collection=collection.name, seconds=time.perf_counter() - start)


def _print_json(out: TextIO, **values: object) -> None:
    out.write(json.dumps(values) + "\n")
    out.flush()


def main() -> None:
    """Read the pages given on the command line."""
    contestant, folder, scans, *names = sys.argv[1:]
    pages = [page for page in corpus.load(Path(folder)) if page.name in names]
    out, sys.stdout = sys.stdout, sys.stderr
    read_collections(contestant, list(group_by_collection(pages, Path(scans))), out)


if __name__ == "__main__":
    main()
