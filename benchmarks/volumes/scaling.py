"""Compare the speed of each stage with two workers and with one, on a temporary database."""

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
from pagewarden import errors
from pagewarden.database import connect_direct, tables
from pagewarden.local import stack
from pagewarden.settings import Settings
from pagewarden.volumes import jobs, orchestrator, stages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pagewarden.database import Database


WORKERS = (1, 2)
VOLUMES = 4  # an even number, so that two workers get equal shares
PAGES = 6
STAGE_SECONDS = 3600.0
_POLL_SECONDS = 0.1
_WAITING_WORKERS = """
select count(*) from pg_stat_activity
where datname = current_database() and query = 'listen pagewarden_volumes'
"""
_STOP_SECONDS = 20.0
# One thread per engine, so that the second core is free for a second worker.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The wall time of a stage of all volumes with a number of workers."""

    stage: str
    workers: int
    pages: int
    seconds: float

    @property
    def pages_per_second(self) -> float:
        """Return the joint speed of all workers."""
        return self.pages / self.seconds


@dataclass(frozen=True, slots=True)
class Setup:
    """A database, folders for images and artifacts, and the program of a worker."""

    database: Database
    observer: psycopg.AsyncConnection
    environment: Mapping[str, str]
    images: Path
    artifacts: Path
    program: Sequence[str] = (sys.executable, "-m", "pagewarden", "volumes", "work")

    def command(self, stage: str) -> list[str]:
        """Return the command line of a worker of one stage."""
        buckets = ("--input-bucket", str(self.images), "--output-bucket", str(self.artifacts))
        return [*self.program, "--stage", stage, *buckets]


def make_table(pages: Sequence[corpus.Page]) -> Table:
    """Process several volumes of the same pages with one worker, then with two."""
    chosen = [page.path for page in corpus.sample(pages, PAGES)]
    measurements = asyncio.run(_measure(chosen))
    table = Table(
        "stage",
        *(f"pages/s, {count} worker{'s' * (count > 1)}" for count in WORKERS),
        "speedup",
        title=f"{VOLUMES} volumes of {len(chosen)} pages, one process and thread per worker",
    )
    for stage, speedup in compute_speedups(measurements).items():
        speeds = [f"{each.pages_per_second:.2f}" for each in measurements if each.stage == stage]
        table.add_row(stage, *speeds, f"{speedup:.2f}")
    return table


async def _measure(pages: Sequence[Path]) -> list[Measurement]:
    async with open_setup() as setup:
        return await measure(setup, pages, volumes=VOLUMES, config={})


def compute_speedups(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Return the speedup of each stage from the smallest to the largest number of workers."""
    seconds: dict[str, dict[int, float]] = {}
    for each in measurements:
        seconds.setdefault(each.stage, {})[each.workers] = each.seconds
    return {stage: by[min(by)] / by[max(by)] for stage, by in seconds.items()}


@contextlib.asynccontextmanager
async def open_setup() -> AsyncIterator[Setup]:
    """Start a temporary embedded server, with folders beside it."""
    with tempfile.TemporaryDirectory(prefix="pagewarden-volumes-") as name:
        os.chmod(name, 0o755)  # noqa: PTH101, S103  # the server runs as another user
        folder = Path(name)
        home = folder / "home"
        async with (
            stack.open_migrated(Settings(home=home)) as local,
            await connect_direct(local.url) as database,
            await psycopg.AsyncConnection.connect(local.url, autocommit=True) as observer,
        ):
            environment = {"PAGEWARDEN_DATABASE_URL": local.url}
            yield Setup(database, observer, environment, folder / "input", folder / "output")


async def measure(
    setup: Setup, pages: Sequence[Path], *, volumes: int, config: Mapping[str, Any]
) -> list[Measurement]:
    """Process the volumes with one worker, then with two; a stage starts when all are ready."""
    names = [jobs.VolumeName("W1", f"I{number}") for number in range(1, volumes + 1)]
    for name in names:
        await asyncio.to_thread(_copy_pages, setup.images / str(name), pages)
    measurements: list[Measurement] = []
    for workers in WORKERS:
        job = await jobs.JobRepository(setup.database).create(
            names, job_key=f"scaling-{workers}", config={**config, "processes": 1}
        )
        measurements += [
            await _measure_stage(setup, job, stage, workers) for stage in stages.STAGES
        ]
    return measurements


async def _measure_stage(
    setup: Setup, job: jobs.CreatedJob, stage: str, workers: int
) -> Measurement:
    async with contextlib.AsyncExitStack() as processes:
        for _ in range(workers):
            await processes.enter_async_context(_start_worker(setup, stage))
        async with asyncio.timeout(STAGE_SECONDS):
            # All workers must start at the same time.
            while await _count_waiting(setup) < workers:  # noqa: ASYNC110  # other processes
                await asyncio.sleep(_POLL_SECONDS)
            await orchestrator.Orchestrator(setup.database, "bench").step()
            while not await _has_passed(setup.database, job, stage):  # noqa: ASYNC110  # as above
                await asyncio.sleep(_POLL_SECONDS)
    runs = await setup.database.select(
        tables.volume_runs,
        columns="pages,started_at,ended_at",
        where={"job_id": job.job_id, "stage": stage, "outcome": "done"},
    )
    start = min(run["started_at"] or "" for run in runs)
    end = max(run["ended_at"] or "" for run in runs)
    seconds = (dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(start)).total_seconds()
    return Measurement(stage, workers, sum(run["pages"] or 0 for run in runs), seconds)


async def _count_waiting(setup: Setup) -> int:
    """Count the workers that are waiting for a message."""
    row = await (await setup.observer.execute(_WAITING_WORKERS)).fetchone()
    return int(row[0]) if row else 0


async def _has_passed(database: Database, job: jobs.CreatedJob, stage: str) -> bool:
    board = await jobs.JobRepository(database).get_board(job.job_id)
    if board.failed:
        (task, *_) = await jobs.JobRepository(database).list_tasks(job.job_id, status="failed")
        raise errors.ReadingError(f"{stage} failed: {task['last_error']['message']}")
    (count,) = [count for count in board.stages if count.stage == stage]
    return count.passed == board.volumes


@contextlib.asynccontextmanager
async def _start_worker(setup: Setup, stage: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *setup.command(stage),
        env={**os.environ, **_ONE_THREAD, **setup.environment},
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


def _copy_pages(folder: Path, pages: Sequence[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(pages, 1):
        shutil.copyfile(page, folder / f"{number:05}{page.suffix}")
