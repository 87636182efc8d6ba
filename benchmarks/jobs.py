"""python -m benchmarks jobs: how soon a check job is taken in, and whether many at once all end."""

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
from pagewarden.reading import fakes

if TYPE_CHECKING:
    from collections.abc import Sequence


# A picture of noise that is 1 MB as PNG, because noise does not shrink.
_NOISE_SIDE = 577
_WARM_UP = 3
_AT_ONCE_IMAGES = 2
_CONNECTIONS = 50
_POLL_SECONDS = 1.0
_ENDED = {"SUCCEEDED", "FAILED", "CANCELLED"}
_PATIENCE_SECONDS = 1800.0

out = Console(highlight=False)


def command(
    *,
    submissions: Annotated[
        int, typer.Option(min=5, help="How many jobs are submitted one after another, and timed.")
    ] = 100,
    images: Annotated[int, typer.Option(min=1, help="Pictures of each of them.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs are submitted at once.")] = 500,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all figures to this file, as JSON.")
    ] = None,
) -> None:
    """Submit check jobs to a system of its own: timed one by one, then many at once.

    The engine takes the same time for every picture, so what is measured is everything else.
    """
    found = run(submissions=submissions, images=images, jobs=jobs)
    if output is not None:
        output.write_text(found, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds to the answer, by the way a job was sent; and how the many at once ended."""

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
    """Measure, show tables, and return all figures as JSON."""
    found = asyncio.run(_measure(submissions, images, jobs))
    _show(found)
    return json.dumps(dataclasses.asdict(found), indent=1)


async def _measure(submissions: int, images: int, jobs: int) -> Found:
    pictures = [_noise(number) for number in range(images)]
    limits = httpx.Limits(max_connections=_CONNECTIONS)
    async with systems.running(engine="fake-steady") as system:
        headers = {"apikey": system.secret_key}
        async with httpx.AsyncClient(
            base_url=system.url, headers=headers, timeout=120, trust_env=False, limits=limits
        ) as client:
            timed = {
                way: await _one_by_one(client, way, pictures, submissions)
                for way in ("form", "archive")
            }
            begin = time.monotonic()
            answered, ids = await _at_once(client, jobs)
            statuses, checked = await _ends(client, ids)
    return Found(
        images=images,
        megabytes=sum(map(len, pictures)) / 1e6,
        form=timed["form"],
        archive=timed["archive"],
        jobs=jobs,
        at_once=answered,
        statuses=dict(statuses),
        checked=checked,
        seconds=time.monotonic() - begin,
        engine_seconds=fakes.STEADY_SECONDS,
    )


async def _one_by_one(
    client: httpx.AsyncClient, way: str, pictures: Sequence[bytes], count: int
) -> list[float]:
    """Submit a job, cancel it so that reading it takes nothing from the next, and go on."""
    seconds = []
    for number in track(range(count + _WARM_UP), way, console=out, transient=True):
        marked = [picture + number.to_bytes(4, "big") for picture in pictures]
        files = _archive(marked) if way == "archive" else _form(marked)
        begin = time.monotonic()
        answer = await client.post("/jobs", data={"language": "fr"}, files=files)
        if number >= _WARM_UP:
            seconds.append(time.monotonic() - begin)
        answer.raise_for_status()
        await client.delete(f"/jobs/{answer.json()['jobId']}")
    return seconds


async def _at_once(client: httpx.AsyncClient, count: int) -> tuple[list[float], list[str]]:
    """Submit so many small jobs, all at the same moment."""
    small = [_plain(number) for number in range(_AT_ONCE_IMAGES)]
    seconds: list[float] = []

    async def submit(number: int) -> str:
        marked = [picture + number.to_bytes(4, "big") for picture in small]
        begin = time.monotonic()
        answer = await client.post("/jobs", data={"language": "fr"}, files=_form(marked))
        seconds.append(time.monotonic() - begin)
        answer.raise_for_status()
        job: str = answer.json()["jobId"]
        return job

    with out.status(f"{count} jobs at once"):
        ids = await asyncio.gather(*(submit(number) for number in range(count)))
    return seconds, list(ids)


async def _ends(
    client: httpx.AsyncClient, ids: Sequence[str]
) -> tuple[collections.Counter[str], int]:
    """Wait until all have ended; count how, and the pictures that were checked."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    left, statuses, checked = list(ids), collections.Counter[str](), 0
    with out.status("reading"):
        while left and time.monotonic() < deadline:
            shown = [(await client.get(f"/jobs/{job}")).json() for job in left]
            done = [job for job in shown if job["status"] in _ENDED]
            statuses.update(job["status"] for job in done)
            checked += sum(job["checked"] for job in done)
            left = [job["jobId"] for job in shown if job["status"] not in _ENDED]
            await asyncio.sleep(_POLL_SECONDS if left else 0)
    statuses.update({"not ended": len(left)} if left else {})
    return statuses, checked


def _noise(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(
        0, 256, (_NOISE_SIDE, _NOISE_SIDE, 3), dtype=np.uint8
    )
    return _png(pixels)


def _plain(number: int) -> bytes:
    return _png(np.full((40 + number, 200, 3), 255, np.uint8))


def _png(pixels: np.ndarray) -> bytes:
    saved = io.BytesIO()
    Image.fromarray(pixels).save(saved, "PNG", compress_level=0)
    return saved.getvalue()


def _form(pictures: Sequence[bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    return [("images", (f"{n}.png", picture)) for n, picture in enumerate(pictures)]


def _archive(pictures: Sequence[bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, picture in enumerate(pictures):
            archive.writestr(f"{number}.png", picture)
    return [("zip_file", ("screens.zip", packed.getvalue()))]


def _show(found: Found) -> None:
    table = Table("ms to the answer", "p50", "p95", "max", title="check jobs")
    what = f"{found.images} pictures, {found.megabytes:.1f} MB, one after another"
    for name, values in (
        (f"{what}, as a form", found.form),
        (f"{what}, as an archive", found.archive),
        (f"{found.jobs} jobs of {_AT_ONCE_IMAGES} pictures at once", found.at_once),
    ):
        ranks = statistics.quantiles(values, n=100)
        table.add_row(name, *(f"{1000 * v:.0f}" for v in (ranks[49], ranks[94], max(values))))
    out.print(table)
    ends = ", ".join(f"{count} {status}" for status, count in found.statuses.items())
    out.print(
        f"{found.jobs} jobs at once: {ends}; {found.checked} pictures checked in "
        f"{found.seconds:.0f} s, with an engine of {found.engine_seconds:g} s a picture"
    )
