"""python -m benchmarks jobs: time to accept a check job, and many check jobs at once."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import io
import json
import statistics
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import httpx
import numpy as np
import typer
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import system as systems
from pagewarden.ocr.engines import fakes

if TYPE_CHECKING:
    from collections.abc import Sequence


# An image of noise has 1 MB as PNG, because noise cannot be compressed.
_NOISE_SIDE = 577
_WARM_UP = 3
_IMAGES_OF_CONCURRENT_JOB = 2
_CONNECTIONS = 50
_POLL_SECONDS = 1.0
_FINAL_STATUSES = {"SUCCEEDED", "FAILED", "CANCELLED"}
_TIMEOUT_SECONDS = 1800.0

out = Console(highlight=False)


def command(
    *,
    submissions: Annotated[
        int, typer.Option(min=5, help="Number of jobs submitted one by one, and timed.")
    ] = 100,
    images: Annotated[int, typer.Option(min=1, help="Images of each of them.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs submitted at once.")] = 500,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Submit check jobs to a temporary system: timed one by one, then many at once.

    The engine takes the same time for every image, so the rest of the system is measured.
    """
    figures = run(submissions=submissions, images=images, jobs=jobs)
    if output is not None:
        output.write_text(figures, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds to the response by request format, and the results of the concurrent jobs."""

    images: int
    megabytes: float
    form: list[float]
    archive: list[float]
    jobs: int
    at_once: list[float]
    statuses: dict[str, int]
    checked: int
    seconds: float
    engine_seconds: float


def run(*, submissions: int, images: int, jobs: int) -> str:
    """Measure, print tables, and return all figures as JSON."""
    figures = asyncio.run(_measure(submissions, images, jobs))
    _print(figures)
    return json.dumps(dataclasses.asdict(figures), indent=1)


async def _measure(submissions: int, image_count: int, jobs: int) -> Figures:
    images = [_make_noise(number) for number in range(image_count)]
    limits = httpx.Limits(max_connections=_CONNECTIONS)
    async with systems.open_system(engine="fake-steady") as system:
        headers = {"apikey": system.secret_key}
        async with httpx.AsyncClient(
            base_url=system.url, headers=headers, timeout=120, trust_env=False, limits=limits
        ) as client:
            timed = {
                form: await _submit_one_by_one(client, form, images, submissions)
                for form in ("form", "archive")
            }
            start = time.monotonic()
            at_once, ids = await _submit_at_once(client, jobs)
            statuses, checked = await _wait_for_end(client, ids)
    return Figures(
        images=image_count,
        megabytes=sum(map(len, images)) / 1e6,
        form=timed["form"],
        archive=timed["archive"],
        jobs=jobs,
        at_once=at_once,
        statuses=dict(statuses),
        checked=checked,
        seconds=time.monotonic() - start,
        engine_seconds=fakes.STEADY_SECONDS,
    )


async def _submit_one_by_one(
    client: httpx.AsyncClient, form: str, images: Sequence[bytes], count: int
) -> list[float]:
    """Submit jobs and return the seconds of each.

    Each job is cancelled before the next one, so that reading it does not compete.
    """
    seconds = []
    for number in track(range(count + _WARM_UP), form, console=out, transient=True):
        marked = [image + number.to_bytes(4, "big") for image in images]
        files = _to_archive(marked) if form == "archive" else _to_form(marked)
        start = time.monotonic()
        response = await client.post("/jobs", data={"language": "fr"}, files=files)
        if number >= _WARM_UP:
            seconds.append(time.monotonic() - start)
        response.raise_for_status()
        await client.delete(f"/jobs/{response.json()['jobId']}")
    return seconds


async def _submit_at_once(client: httpx.AsyncClient, count: int) -> tuple[list[float], list[str]]:
    """Submit this many small jobs at the same moment; return the seconds and ids."""
    small = [_make_blank(number) for number in range(_IMAGES_OF_CONCURRENT_JOB)]
    seconds: list[float] = []

    async def submit(number: int) -> str:
        marked = [image + number.to_bytes(4, "big") for image in small]
        start = time.monotonic()
        response = await client.post("/jobs", data={"language": "fr"}, files=_to_form(marked))
        seconds.append(time.monotonic() - start)
        response.raise_for_status()
        job: str = response.json()["jobId"]
        return job

    with out.status(f"{count} jobs at once"):
        ids = await asyncio.gather(*(submit(number) for number in range(count)))
    return seconds, list(ids)


async def _wait_for_end(
    client: httpx.AsyncClient, ids: Sequence[str]
) -> tuple[collections.Counter[str], int]:
    """Wait until all jobs have ended; count their statuses, and the checked images."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    open_jobs, statuses, checked = list(ids), collections.Counter[str](), 0
    with out.status("reading"):
        while open_jobs and time.monotonic() < deadline:
            responses = [(await client.get(f"/jobs/{job}")).json() for job in open_jobs]
            done = [job for job in responses if job["status"] in _FINAL_STATUSES]
            statuses.update(job["status"] for job in done)
            checked += sum(job["checked"] for job in done)
            open_jobs = [job["jobId"] for job in responses if job["status"] not in _FINAL_STATUSES]
            await asyncio.sleep(_POLL_SECONDS if open_jobs else 0)
    statuses.update({"not ended": len(open_jobs)} if open_jobs else {})
    return statuses, checked


def _make_noise(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(
        0, 256, (_NOISE_SIDE, _NOISE_SIDE, 3), dtype=np.uint8
    )
    return _to_png(pixels)


def _make_blank(number: int) -> bytes:
    return _to_png(np.full((40 + number, 200, 3), 255, np.uint8))


def _to_png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=0)
    return buffer.getvalue()


def _to_form(images: Sequence[bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    return [("images", (f"{n}.png", image)) for n, image in enumerate(images)]


def _to_archive(images: Sequence[bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, image in enumerate(images):
            archive.writestr(f"{number}.png", image)
    return [("zip_file", ("screens.zip", buffer.getvalue()))]


def _print(figures: Figures) -> None:
    table = Table("ms to the response", "p50", "p95", "max", title="check jobs")
    what = f"{figures.images} images, {figures.megabytes:.1f} MB, one by one"
    for name, values in (
        (f"{what}, as a form", figures.form),
        (f"{what}, as an archive", figures.archive),
        (f"{figures.jobs} jobs of {_IMAGES_OF_CONCURRENT_JOB} images at once", figures.at_once),
    ):
        ranks = statistics.quantiles(values, n=100)
        table.add_row(name, *(f"{1000 * v:.0f}" for v in (ranks[49], ranks[94], max(values))))
    out.print(table)
    counts = ", ".join(f"{count} {status}" for status, count in figures.statuses.items())
    out.print(
        f"{figures.jobs} jobs at once: {counts}; {figures.checked} images checked in "
        f"{figures.seconds:.0f} s, with an engine of {figures.engine_seconds:g} s per image"
    )
