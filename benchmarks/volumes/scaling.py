"""How much sooner two workers are done than one, stage by stage, on a database of their own."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from rich.table import Table

from benchmarks.ocr import corpus
from pagewarden import database, errors
from pagewarden.database import tables
from pagewarden.local import stack
from pagewarden.settings import Settings
from pagewarden.volumes import jobs, orchestrator, stages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pagewarden.database import Database


WORKERS = (1, 2)
VOLUMES = 4  # an even number, so that two have the same to do
PAGES = 6
STAGE_SECONDS = 3600.0
_POLL_SECONDS = 0.1
_WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and query = 'listen pagewarden_volumes'
"""
_STOP_SECONDS = 20.0
# One thread for each engine, so that a second worker finds the second core free.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a stage of all volumes took with so many workers, from the first page to the last."""

    stage: str
    workers: int
    pages: int
    seconds: float

    @property
    def pages_per_second(self) -> float:
        """Give the speed of all workers together."""
        return self.pages / self.seconds


@dataclass(frozen=True, slots=True)
class Place:
    """A database, folders for images and artifacts, and how a worker is started."""

    database: Database
    observer: psycopg.AsyncConnection
    environment: Mapping[str, str]
    images: Path
    artifacts: Path
    program: Sequence[str] = (sys.executable, "-m", "pagewarden.cli", "volumes", "work")

    def command(self, stage: str) -> list[str]:
        """Give the command of a worker of one stage."""
        buckets = ("--input-bucket", str(self.images), "--output-bucket", str(self.artifacts))
        return [*self.program, "--stage", stage, *buckets]


def table(pages: Sequence[corpus.Page]) -> Table:
    """Have several volumes of the same pages read by one worker, then by two."""
    chosen = [page.path for page in corpus.sample(pages, PAGES)]
    measured = asyncio.run(_measure(chosen))
    made = Table(
        "stage",
        *(f"pages/s, {count} worker{'s' * (count > 1)}" for count in WORKERS),
        "times",
        title=f"{VOLUMES} volumes of {len(chosen)} pages, one process and thread a worker",
    )
    for stage, times in ratios(measured).items():
        speeds = [f"{each.pages_per_second:.2f}" for each in measured if each.stage == stage]
        made.add_row(stage, *speeds, f"{times:.2f}")
    return made


async def _measure(pages: Sequence[Path]) -> list[Measured]:
    async with open_place() as place:
        return await measure(place, pages, volumes=VOLUMES, config={})


def ratios(measured: Sequence[Measured]) -> dict[str, float]:
    """Tell by which factor each stage is quicker with the most workers than with the fewest."""
    times: dict[str, dict[int, float]] = {}
    for each in measured:
        times.setdefault(each.stage, {})[each.workers] = each.seconds
    return {stage: by[min(by)] / by[max(by)] for stage, by in times.items()}


@contextlib.asynccontextmanager
async def open_place() -> AsyncIterator[Place]:
    """Start an embedded server of our own, and have folders beside it."""
    with tempfile.TemporaryDirectory(prefix="pagewarden-volumes-") as name:
        os.chmod(name, 0o755)  # noqa: PTH101, S103  # the server has another account
        folder = Path(name)
        home = folder / "home"
        async with (
            stack.ready(Settings(home=home)) as found,
            await database.connect_direct(found.url) as link,
            await psycopg.AsyncConnection.connect(found.url, autocommit=True) as observer,
        ):
            environment = {"PAGEWARDEN_DATABASE_URL": found.url}
            yield Place(link, observer, environment, folder / "input", folder / "output")


async def measure(
    place: Place, pages: Sequence[Path], *, volumes: int, config: Mapping[str, Any]
) -> list[Measured]:
    """Have the same volumes read by one worker and by two; each stage begins when all are ready."""
    names = [jobs.Name("W1", f"I{number}") for number in range(1, volumes + 1)]
    for name in names:
        await asyncio.to_thread(_lay_out, place.images / str(name), pages)
    measured: list[Measured] = []
    for workers in WORKERS:
        made = await jobs.Jobs(place.database).create(
            names, job_key=f"scaling-{workers}", config={**config, "processes": 1}
        )
        measured += [await _measure_stage(place, made, stage, workers) for stage in stages.STAGES]
    return measured


async def _measure_stage(place: Place, made: jobs.Made, stage: str, workers: int) -> Measured:
    async with contextlib.AsyncExitStack() as crew:
        for _ in range(workers):
            await crew.enter_async_context(_working(place, stage))
        async with asyncio.timeout(STAGE_SECONDS):
            # All begin at the same time.
            while await _waiting(place) < workers:  # noqa: ASYNC110  # others
                await asyncio.sleep(_POLL_SECONDS)
            await orchestrator.Orchestrator(place.database, "bench").look()
            while not await _is_passed(place.database, made, stage):  # noqa: ASYNC110  # others
                await asyncio.sleep(_POLL_SECONDS)
    runs = await place.database.select(
        tables.volume_runs,
        columns="pages,started_at,ended_at",
        where={"job_id": made.job_id, "stage": stage, "outcome": "done"},
    )
    began = min(run["started_at"] or "" for run in runs)
    ended = max(run["ended_at"] or "" for run in runs)
    seconds = (_moment(ended) - _moment(began)).total_seconds()
    return Measured(stage, workers, sum(run["pages"] or 0 for run in runs), seconds)


async def _waiting(place: Place) -> int:
    """Count the workers that wait for a message."""
    row = await (await place.observer.execute(_WAITING)).fetchone()
    return int(row[0]) if row else 0


async def _is_passed(link: Database, made: jobs.Made, stage: str) -> bool:
    board = await jobs.Jobs(link).board(made.job_id)
    if board.failed:
        (task, *_) = await jobs.Jobs(link).tasks(made.job_id, status="failed")
        raise errors.ReadingError(f"{stage} failed: {task['last_error']['message']}")
    (count,) = [count for count in board.stages if count.stage == stage]
    return count.passed == board.volumes


@contextlib.asynccontextmanager
async def _working(place: Place, stage: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *place.command(stage),
        env={**os.environ, **_ONE_THREAD, **place.environment},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _lay_out(folder: Path, pages: Sequence[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(pages, 1):
        shutil.copyfile(page, folder / f"{number:05}{page.suffix}")


def _moment(timestamp: str) -> dt.datetime:
    return dt.datetime.fromisoformat(timestamp)
