"""python -m benchmarks pipeline: latency of uploads and claims, and overhead of the system."""

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
from pagewarden.ocr.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import httpx


# An image of noise that is 5 MB as PNG, because noise does not shrink.
NOISE_SIDE = 1290
WARM_UP = 3  # uploads before the timed ones
POLL_SECONDS = 0.02
SLOW_POLL_SECONDS = 0.5
UPLOADS_AT_A_TIME = 4
PAGES_PER_PDF = 4
DONE = {"completed", "dead_letter", "failed", "pending_review", "cancelled"}

out = Console(highlight=False)


def command(
    *,
    corpus: Annotated[
        Path,
        typer.Option(
            envvar="PAGEWARDEN_CORPUS",
            help="Folder of pages; the reader alone and the system read them.",
        ),
    ],
    uploads: Annotated[int, typer.Option(min=5, help="Number of timed uploads.")] = 60,
    pages: Annotated[int, typer.Option(min=1, help="Number of pages to read.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="Number of times to read them.")] = 3,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Measure latency and overhead of documents in a complete temporary system."""
    figures = run(corpus, uploads=uploads, pages=pages, rounds=rounds)
    if output is not None:
        output.write_text(figures, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds of consecutive uploads: from request to response, and from upload to claim."""

    megabytes: float
    answer: list[float]
    claim: list[float]


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds for the same documents by the reader alone (bare) and by the system, by round."""

    what: str
    pages: int
    bare: list[float]
    system: list[float]

    @property
    def ratio(self) -> float:
        """Return how many times as long the system takes."""
        return statistics.median(self.system) / statistics.median(self.bare)


def run(corpus: Path, *, uploads: int, pages: int, rounds: int) -> str:
    """Measure, print tables, and return all figures as JSON."""
    latencies = asyncio.run(_measure_latencies(uploads))
    _print_latencies(latencies)
    sampled = corpora.sample(corpora.load(corpus), pages)
    with tempfile.TemporaryDirectory(prefix="pagewarden-bench-") as folder:
        readings = asyncio.run(
            _measure_readings(_make_sets(sampled, Path(folder)), len(sampled), rounds)
        )
    _print_readings(readings)
    return json.dumps(
        {
            "latencies": dataclasses.asdict(latencies),
            "readings": [{**dataclasses.asdict(r), "ratio": r.ratio} for r in readings],
        },
        indent=1,
    )


async def _measure_latencies(count: int) -> Latencies:
    """Upload to an idle system with an instant engine."""
    content = _make_noise()
    latencies = Latencies(len(content) / 1e6, [], [])
    async with (
        systems.open_system(engine="null", gpu_engine="null") as system,
        system.client() as client,
    ):
        for number in track(range(count + WARM_UP), "uploading", console=out, transient=True):
            start = time.monotonic()
            document = await upload(client, f"{number}.png", _make_distinct(content, number))
            responded = time.monotonic()
            progress = await wait_until_done(client, document)
            if number >= WARM_UP:
                latencies.answer.append(responded - start)
                latencies.claim.append(_get_seconds_to_claim(progress))
    return latencies


def _get_seconds_to_claim(progress: Mapping[str, Any]) -> float:
    created, claimed = (
        dt.datetime.fromisoformat(progress[name]) for name in ("created_at", "claimed_at")
    )
    return (claimed - created).total_seconds()


def _make_sets(pages: Sequence[corpora.Page], folder: Path) -> Mapping[str, Sequence[Path]]:
    """Return the pages as images, and as scanned PDFs of a few pages each."""
    pdfs = []
    for first in range(0, len(pages), PAGES_PER_PDF):
        pdfs.append(folder / f"{first}.pdf")
        corpora.make_scan(pages[first : first + PAGES_PER_PDF], pdfs[-1])
    return {"images": [page.path for page in pages], "scanned PDFs": pdfs}


async def _measure_readings(
    sets: Mapping[str, Sequence[Path]], pages: int, rounds: int
) -> Sequence[Reading]:
    readings = [Reading(what, pages, [], []) for what in sets]
    async with systems.open_system() as system, system.client() as client:
        for number in range(rounds + 1):
            for reading in readings:
                with out.status(f"{reading.what}, round {number} of {rounds}"):
                    bare = await _read_bare(sets[reading.what])
                    whole = await _read_by_system(client, sets[reading.what], number)
                if number:  # round 0 is the warm-up
                    reading.bare.append(bare)
                    reading.system.append(whole)
    return readings


async def _read_bare(paths: Sequence[Path]) -> float:
    """Read as `pagewarden ocr` does; return the seconds, without those of loading the engine."""
    async with Reader() as reader:

        async def read(path: Path) -> None:
            async with contextlib.aclosing(reader.read(path)) as pages:
                async for _ in pages:
                    pass

        await read(paths[0])
        start = time.monotonic()
        await _run_for_each(paths, read, limit=reader.processes + 1)
        return time.monotonic() - start


async def _read_by_system(client: httpx.AsyncClient, paths: Sequence[Path], round_: int) -> float:
    """Upload all; return the seconds until the last one is completed.

    Polling is slow, because it takes CPU time from the system.
    """
    start = time.time()
    documents: list[str] = []

    async def upload_one(path: Path) -> None:
        # The same bytes would be the same document as in the last round.
        content = await asyncio.to_thread(path.read_bytes) + f"\n% round {round_}".encode()
        name = f"{round_}-{path.parent.name}-{path.name}"
        documents.append(await upload(client, name, content))

    await _run_for_each(paths, upload_one, limit=UPLOADS_AT_A_TIME)
    ends = [
        await wait_until_done(client, document, poll_seconds=SLOW_POLL_SECONDS)
        for document in documents
    ]
    last = max(dt.datetime.fromisoformat(end["completed_at"]) for end in ends)
    return last.timestamp() - start


async def _run_for_each(
    paths: Sequence[Path], action: Callable[[Path], Awaitable[None]], *, limit: int
) -> None:
    slots = asyncio.Semaphore(limit)

    async def run_one(path: Path) -> None:
        async with slots:
            await action(path)

    await asyncio.gather(*map(run_one, paths))


async def upload(client: httpx.AsyncClient, name: str, content: bytes) -> str:
    """Upload a file and return the id of the document."""
    response = await client.post("/upload-to-dropbox", files={"file": (name, content)})
    response.raise_for_status()
    document: str = response.json()["document_id"]
    return document


async def wait_until_done(
    client: httpx.AsyncClient, document: str, *, poll_seconds: float = POLL_SECONDS
) -> Mapping[str, Any]:
    """Poll a document until it is done; return its last status."""
    while True:
        response = await client.get(f"/documents/{document}")
        response.raise_for_status()
        progress: Mapping[str, Any] = response.json()
        if progress["ocr_status"] in DONE:
            break
        await asyncio.sleep(poll_seconds)
    if progress["ocr_status"] != "completed":
        raise errors.PagewardenError(f"{progress['name']} was not completed: {progress['error']}")
    return progress


def _make_noise() -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (NOISE_SIDE, NOISE_SIDE, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=0)
    return buffer.getvalue()


def _make_distinct(content: bytes, number: int) -> bytes:
    """Append bytes after the image, which decoders ignore, to make it another document."""
    return content + number.to_bytes(4, "big")


def _print_latencies(latencies: Latencies) -> None:
    table = Table("seconds", "p50", "p95", "max", title=f"{len(latencies.answer)} uploads")
    for name, values in (
        (f"response to an upload of {latencies.megabytes:.1f} MB", latencies.answer),
        ("from upload to claim, worker idle", latencies.claim),
    ):
        ranks = statistics.quantiles(values, n=100)
        table.add_row(name, f"{ranks[49]:.3f}", f"{ranks[94]:.3f}", f"{max(values):.3f}")
    out.print(table)


def _print_readings(readings: Sequence[Reading]) -> None:
    title = f"reading on {os.cpu_count()} cores, by the reader alone (bare) and by the system"
    table = Table("", "pages", "bare, s", "system, s", "ratio", title=title)
    for reading in readings:
        table.add_row(
            reading.what,
            str(reading.pages),
            *(f"{statistics.median(v):.1f}" for v in (reading.bare, reading.system)),
            f"{reading.ratio:.2f}",
        )
    out.print(table)
