"""python -m benchmarks pipeline: how soon an upload is answered and claimed, what all costs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import io
import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import system as systems
from benchmarks.ocr import corpus as corpora
from pagewarden import errors
from pagewarden.reading import reader as readers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import httpx


# An image of noise that is 5 MB as PNG, because noise does not shrink.
NOISE_SIDE = 1290
WARM_UP = 3  # uploads that start what is started once
POLL_SECONDS = 0.02
RARELY_SECONDS = 0.5
UPLOADS_AT_A_TIME = 4
PAGES_OF_A_PDF = 4
DONE = {"completed", "dead_letter", "failed", "pending_review", "cancelled"}

out = Console(highlight=False)


def command(
    *,
    corpus: Annotated[
        Path,
        typer.Option(
            envvar="PAGEWARDEN_CORPUS",
            help="Folder of pages; they are read bare and by the system.",
        ),
    ],
    uploads: Annotated[int, typer.Option(min=5, help="How many uploads are timed.")] = 60,
    pages: Annotated[int, typer.Option(min=1, help="How many pages are read.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="How often they are read.")] = 3,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure the way of a document through the whole system, in a system of its own."""
    found = run(corpus, uploads=uploads, pages=pages, rounds=rounds)
    if output is not None:
        output.write_text(found, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds of many uploads, one after another: to the answer, and from there to the claim."""

    megabytes: float
    answer: list[float]
    claim: list[float]


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds for the same documents, bare and by the whole system, round by round."""

    what: str
    pages: int
    bare: list[float]
    system: list[float]

    @property
    def ratio(self) -> float:
        """Say how much longer the system takes."""
        return statistics.median(self.system) / statistics.median(self.bare)


def run(corpus: Path, *, uploads: int, pages: int, rounds: int) -> str:
    """Measure, show a table, and return all figures as JSON."""
    latencies = asyncio.run(_latencies(uploads))
    _show_latencies(latencies)
    chosen = corpora.sample(corpora.load(corpus), pages)
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        readings = asyncio.run(_readings(_sets(chosen, Path(folder)), len(chosen), rounds))
    _show_readings(readings)
    return json.dumps(
        {
            "latencies": dataclasses.asdict(latencies),
            "readings": [{**dataclasses.asdict(r), "ratio": r.ratio} for r in readings],
        },
        indent=1,
    )


async def _latencies(count: int) -> Latencies:
    """Upload into a system that has nothing else to do, with an engine that takes no time."""
    content = _noise()
    found = Latencies(len(content) / 1e6, [], [])
    async with (
        systems.running(engine="null", gpu_engine="null") as system,
        system.client() as client,
    ):
        for number in track(range(count + WARM_UP), "uploading", console=out, transient=True):
            marked = _marked(content, number)
            begin = time.monotonic()
            document = await _upload(client, f"{number}.png", marked)
            answered = time.monotonic()
            progress = await _ended(client, document)
            if number >= WARM_UP:
                found.answer.append(answered - begin)
                found.claim.append(_seconds_to_claim(progress))
    return found


def _seconds_to_claim(progress: Mapping[str, Any]) -> float:
    created, claimed = (
        dt.datetime.fromisoformat(progress[name]) for name in ("created_at", "claimed_at")
    )
    return (claimed - created).total_seconds()


def _sets(pages: Sequence[corpora.Page], folder: Path) -> Mapping[str, Sequence[Path]]:
    """Have the pages as images, and as scanned PDFs of a few pages each."""
    pdfs = []
    for first in range(0, len(pages), PAGES_OF_A_PDF):
        pdfs.append(folder / f"{first}.pdf")
        corpora.make_scan(pages[first : first + PAGES_OF_A_PDF], pdfs[-1])
    return {"images": [page.path for page in pages], "scanned PDFs": pdfs}


async def _readings(
    sets: Mapping[str, Sequence[Path]], pages: int, rounds: int
) -> Sequence[Reading]:
    found = [Reading(what, pages, [], []) for what in sets]
    async with systems.running() as system, system.client() as client:
        for number in range(rounds + 1):
            for reading in found:
                with out.status(f"{reading.what}, round {number} of {rounds}"):
                    bare = await _read_bare(sets[reading.what])
                    whole = await _read_by_system(client, sets[reading.what], number)
                if number:  # the first round loads what is loaded once
                    reading.bare.append(bare)
                    reading.system.append(whole)
    return found


async def _read_bare(paths: Sequence[Path]) -> float:
    """Read as pagewarden ocr does; the engine is loaded before the clock starts."""
    async with readers.Reader() as reader:

        async def read(path: Path) -> None:
            async with contextlib.aclosing(reader.read(path)) as pages:
                async for _ in pages:
                    pass

        await read(paths[0])
        begin = time.monotonic()
        await _each(paths, read, at_a_time=reader.processes + 1)
        return time.monotonic() - begin


async def _read_by_system(client: httpx.AsyncClient, paths: Sequence[Path], round_: int) -> float:
    """Upload all, and see when the last one was read; asking more often would cost time too."""
    begin = time.time()
    documents: list[str] = []

    async def send(path: Path) -> None:
        # Other bytes than last time, or it would be the same document.
        content = await asyncio.to_thread(path.read_bytes) + f"\n% round {round_}".encode()
        name = f"{round_}-{path.parent.name}-{path.name}"
        documents.append(await _upload(client, name, content))

    await _each(paths, send, at_a_time=UPLOADS_AT_A_TIME)
    ends = [await _ended(client, document, pause=RARELY_SECONDS) for document in documents]
    last = max(dt.datetime.fromisoformat(end["completed_at"]) for end in ends)
    return last.timestamp() - begin


async def _each(
    paths: Sequence[Path], do: Callable[[Path], Awaitable[None]], *, at_a_time: int
) -> None:
    places = asyncio.Semaphore(at_a_time)

    async def one(path: Path) -> None:
        async with places:
            await do(path)

    await asyncio.gather(*map(one, paths))


async def _upload(client: httpx.AsyncClient, name: str, content: bytes) -> str:
    answer = await client.post("/upload-to-dropbox", files={"file": (name, content)})
    answer.raise_for_status()
    document: str = answer.json()["document_id"]
    return document


async def _ended(
    client: httpx.AsyncClient, document: str, *, pause: float = POLL_SECONDS
) -> Mapping[str, Any]:
    """Ask until it has ended."""
    while True:
        answer = await client.get(f"/documents/{document}")
        answer.raise_for_status()
        progress: Mapping[str, Any] = answer.json()
        if progress["ocr_status"] in DONE:
            break
        await asyncio.sleep(pause)
    if progress["ocr_status"] != "completed":
        raise errors.PagewardenError(f"{progress['name']} was not read: {progress['error']}")
    return progress


def _noise() -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (NOISE_SIDE, NOISE_SIDE, 3), dtype=np.uint8)
    saved = io.BytesIO()
    Image.fromarray(pixels).save(saved, "PNG", compress_level=0)
    return saved.getvalue()


def _marked(content: bytes, number: int) -> bytes:
    """Make it another document; what comes after the image is nobody's business."""
    return content + number.to_bytes(4, "big")


def _show_latencies(found: Latencies) -> None:
    table = Table("seconds", "p50", "p95", "max", title=f"{len(found.answer)} uploads")
    for name, values in (
        (f"answer to an upload of {found.megabytes:.1f} MB", found.answer),
        ("from upload to claim, worker idle", found.claim),
    ):
        ranks = statistics.quantiles(values, n=100)
        table.add_row(name, f"{ranks[49]:.3f}", f"{ranks[94]:.3f}", f"{max(values):.3f}")
    out.print(table)


def _show_readings(found: Sequence[Reading]) -> None:
    title = f"reading on {os.cpu_count()} cores, bare and by the whole system"
    table = Table("", "pages", "bare, s", "system, s", "ratio", title=title)
    for reading in found:
        table.add_row(
            reading.what,
            str(reading.pages),
            *(f"{statistics.median(v):.1f}" for v in (reading.bare, reading.system)),
            f"{reading.ratio:.2f}",
        )
    out.print(table)
