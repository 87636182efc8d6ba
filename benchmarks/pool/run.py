"""Compare pool policies in a simulation, then measure real programs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from PIL import Image
from psycopg.rows import dict_row
from rich.console import Console
from rich.table import Table

from benchmarks.pool import simulation
from benchmarks.pool.program import ProgramOptions
from pagewarden.local import stack
from pagewarden.pool.capacity import ResourceCost
from pagewarden.pool.plan import PoolPlan
from pagewarden.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


SIZE = 15
POLICIES = (simulation.FIXED, simulation.SIMPLE, simulation.POOL)
READING_SECONDS = 0.1
SPEEDUP_DOCUMENTS = 120
"""Number of documents for the comparison of one worker with two."""
OVERHEAD_DOCUMENTS = 2000
"""Number of documents, read in no time, for the measurement of overhead."""
ALL_READ = "not exists (select from documents where ocr_status <> 'completed')"
_MS = 1000

out = Console(highlight=False)


def run(*, days: int, documents: int, simulation_only: bool) -> str:
    """Measure, print tables, and return all figures as JSON."""
    figures: dict[str, Any] = {"simulation": run_simulation(days)}
    if not simulation_only:
        figures["programs"] = asyncio.run(_measure_programs(documents))
    return json.dumps(figures, indent=1)


# The simulation ----------------------------------------------------------------------------


def run_simulation(days: int) -> list[dict[str, Any]]:
    """Simulate every scenario with every policy."""
    plan = PoolPlan(
        dict.fromkeys(simulation.SECONDS_OF, Fraction(1)),
        dict.fromkeys(simulation.SECONDS_OF, 1),
        SIZE, SIZE, 30.0, ResourceCost(1e9, 1e9),
    )  # fmt: skip
    table = Table(
        "scenario", "policy", "min", "index, s", "acte, s", "moves/h", "min, ratio", "s, ratio",
        title=f"{SIZE} workers: minutes to drain, longest waits, and improvement over fixed",
    )  # fmt: skip
    rows = []
    for scenario in simulation.make_scenarios(days):
        results = {
            policy.name: simulation.simulate(
                policy,
                plan,
                scenario.traffic,
                simulation.SECONDS_OF,
                leaderless=scenario.leaderless,
            )
            for policy in POLICIES
        }
        for name, result in results.items():
            row = _make_row(scenario, name, result, results[simulation.FIXED.name])
            rows.append(row)
            table.add_row(*(_format_cell(value) for value in row.values()))
        table.add_section()
    out.print(table)
    return rows


def _make_row(
    scenario: simulation.Scenario, name: str, result: simulation.Result, fixed: simulation.Result
) -> dict[str, Any]:
    drained, by_fixed = (r.drained_at - scenario.start for r in (result, fixed))
    return {
        "scenario": scenario.name,
        "policy": name,
        "drained_minutes": drained / 60,
        "index_wait": result.waits.get("index", 0.0),
        "acte_wait": result.waits.get("acte", 0.0),
        "switches_per_hour": result.lane_changes / (result.drained_at / simulation.HOUR),
        "drained_ratio": f"{by_fixed / drained:.2f}",
        "wait_ratio": f"{fixed.longest_wait / max(result.longest_wait, 1e-9):.2f}",
    }


def _format_cell(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


# Real programs -----------------------------------------------------------------------------


async def _measure_programs(documents: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    async with open_pool_database() as db:
        for name, measure in (
            ("eight workers, four programs, two of them killed", measure_rebalancing),
            ("one worker, then two", measure_speedup),
            ("overhead per document", measure_overhead),
            ("programs killed for ten minutes", measure_kills),
            ("images beside 10,000 actes of 20 pages", measure_yielding),
            ("registry drained", functools.partial(measure_drain, documents=documents)),
        ):
            with out.status(name):
                figures[name] = await measure(db)
            _print(name, figures[name])
    return figures


def _print(name: str, figures: Mapping[str, Any]) -> None:
    table = Table(name, "")
    for label, value in figures.items():
        table.add_row(label, f"{value:.2f}" if isinstance(value, float) else str(value))
    out.print(table)


@contextlib.asynccontextmanager
async def _start_programs(
    db: PoolDatabase,
    programs: int,
    **options: Any,  # noqa: ANN401  # fields of ProgramOptions
) -> AsyncIterator[list[Any]]:
    """Start a number of programs; stop them at the end."""
    async with contextlib.AsyncExitStack() as resources:
        yield [
            await resources.enter_async_context(
                start_program(
                    ProgramOptions(url=db.worker_url, process=f"program-{number}", **options)
                )
            )
            for number in range(1, programs + 1)
        ]


async def measure_rebalancing(
    db: PoolDatabase,
    *,
    interval: float = 2.0,
    documents: int = 1900,
    reading_seconds: float = 0.1,
) -> dict[str, Any]:
    """Measure how soon eight workers in four programs follow the queue, and survive two kills."""
    await db.clear()
    seconds_of = {"index": reading_seconds, "acte": reading_seconds}
    options = {"interval_seconds": interval, "seconds_of": seconds_of, "lock_seconds": 3}
    async with _start_programs(db, 4, heartbeat_seconds=1, **options) as programs:
        await db.wait_until(_have_lanes(8))
        first = documents // 4
        await db.add("index", first - first // 8)
        await db.add("acte", first // 8)
        to_index = await db.wait_until(_are_split(index=7, acte=1))
        await db.add("acte", documents - first)
        to_acte = await db.wait_until(_are_split(index=1, acte=7))
        leader = await db.fetch_value("select process from private.pool_leader")
        programs[int(leader.rpartition("-")[2]) - 1].kill()
        to_leader = await db.wait_until(
            f"exists (select from private.pool_leader where process <> '{leader}')"
        )
        programs[int(leader.rpartition("-")[2]) % 4].kill()
        to_completion = await db.wait_until(ALL_READ)
    return {
        "intervals until most serve index": to_index / interval,
        "intervals until most serve acte": to_acte / interval,
        "intervals until another leads": to_leader / interval,
        "seconds until all are read": to_completion,
        **await _check_results(db),
    }


def _have_lanes(count: int) -> str:
    return f"(select count(lane) = {count} from private.workers)"  # noqa: S608  # a number


def _are_split(**lanes: int) -> str:
    counts = " and ".join(
        f"count(*) filter (where lane = '{lane}') = {count}" for lane, count in lanes.items()
    )
    return f"(select {counts} from private.workers)"  # noqa: S608  # our own lanes


async def _check_results(db: PoolDatabase) -> dict[str, Any]:
    """Count documents, results, duplicates and violated invariants."""
    return {
        "documents": await db.fetch_value("select count(*) from documents"),
        "results": await db.fetch_value("select count(*) from ocr_processing_logs"),
        "read twice": await db.fetch_value(
            "select count(*) - count(distinct document_id) from ocr_processing_logs"
        ),
        "violations": await db.fetch_value("select count(*) from private.invariant_violations()"),
    }


async def measure_speedup(db: PoolDatabase) -> dict[str, float]:
    """Measure one worker, then two, on a mixed queue with a constant reading time."""
    seconds = {}
    for count in (1, 2):
        seconds[count] = await _time_workers(db, SPEEDUP_DOCUMENTS, READING_SECONDS, count=count)
    return {
        "one worker, s": seconds[1],
        "two workers, s": seconds[2],
        "times as fast": seconds[1] / seconds[2],
    }


async def measure_overhead(db: PoolDatabase) -> dict[str, float]:
    """Measure the overhead per document of a worker."""
    seconds = await _time_workers(db, OVERHEAD_DOCUMENTS, 0.0, count=1)
    return {"overhead, ms": seconds / OVERHEAD_DOCUMENTS * _MS}


async def _time_workers(
    db: PoolDatabase,
    documents: int,
    reading_seconds: float,
    *,
    count: int,
) -> float:
    """Return the seconds that a number of workers take for a mixed queue, without their start."""
    await db.clear()
    options = ProgramOptions(
        url=db.worker_url,
        process="program-1",
        count=count,
        size=count,
        seconds_of={"index": reading_seconds, "acte": reading_seconds},
    )
    async with start_program(options):
        await db.wait_until(_have_lanes(count))
        start = time.monotonic()
        await db.add("index", documents // 2)
        await db.add("acte", documents // 2)
        await db.wait_until(ALL_READ)
        return time.monotonic() - start


async def measure_kills(db: PoolDatabase, *, seconds: float = 600.0) -> dict[str, Any]:
    """Kill programs at random, every second time the leader, and restart them as `up` does.

    The pool is whole when all workers report, have a lane, and a living program leads.
    """
    await db.clear()
    options = ProgramOptions(
        url=db.worker_url,
        process="",
        size=8,
        interval_seconds=30.0,
        pages=20,
        seconds_of={"index": 0.05, "acte": 0.05},
    )
    rng = random.Random(1)  # noqa: S311  # no secret
    recoveries: list[float] = []
    whole = (
        "(select count(*) = 8 and count(lane) = 8 from private.workers"
        " where seen_at > now() - interval '5 seconds') and exists (select from private.pool_leader"
        " as l join private.workers as w using (process) where l.expires_at > now()"
        " and w.seen_at > now() - interval '5 seconds')"
    )
    async with contextlib.AsyncExitStack() as resources:

        async def start(number: int) -> asyncio.subprocess.Process:
            process = f"program-{number}-{len(recoveries)}"
            program = start_program(options.model_copy(update={"process": process}))
            return await resources.enter_async_context(program)

        programs = [await start(number) for number in range(4)]
        await db.wait_until(whole)
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            await db.add("index", 50)
            await db.add("acte", 10)
            number = rng.randrange(4)
            if len(recoveries) % 2:
                leader = await db.fetch_value("select process from private.pool_leader")
                number = int(leader.split("-")[1])
            programs[number].kill()
            recoveries.append(0.0)
            programs[number] = await start(number)
            recoveries[-1] = await db.wait_until(whole)
        await db.wait_until(ALL_READ)
    return {
        "kills": len(recoveries),
        "seconds until the pool is whole, median": statistics.median(recoveries),
        "seconds until the pool is whole, maximum": max(recoveries),
        **await _check_results(db),
    }


async def measure_yielding(
    db: PoolDatabase, *, documents: int = 10_000, images: int = 20, seconds: float = 10.0
) -> dict[str, Any]:
    """Measure how long images take while the registry is full of long documents, and the cost.

    A real program reads real files with two processes, and an engine that takes a second per page.
    """
    await db.clear()
    await db.conn.execute(
        """select set_config('request.jwt.claims', '{"role": "service_role"}', false)"""
    )
    with tempfile.TemporaryDirectory() as folder:
        _write_files(Path(folder))
        async with _start_worker(db, Path(folder)):
            await db.wait_until(_have_lanes(2))
            await db.add("acte", 1, path="/acte.pdf")  # and its case
            await db.wait_until(ALL_READ)
            for _ in range(images):
                await db.add_image()
                await db.wait_until(ALL_READ)
            idle = await _measure_images(db, "-infinity")
            await db.add("acte", documents, path="/acte.pdf")
            await db.wait_until("exists (select from ocr_pages where page_number = 2)")
            alone = await _count_pages_per_second(db, images * seconds / 4)
            begin = await db.fetch_value("select now()::text")
            adding = asyncio.create_task(_add_images(db, images, seconds))
            both = await _count_pages_per_second(db, images * seconds)
            await adding
            await db.wait_until(
                f"(select count(*) = {images} {_IMAGES} and r.created_at > '{begin}')"  # ours
            )
            beside = await _measure_images(db, begin)
        return {
            "image while idle, s: median, maximum": idle,
            "image beside the registry, s: median, maximum": beside,
            "pages per second, registry alone": alone,
            "pages per second, both": both,
            "attempts of all actes read": await db.fetch_value(
                "select array_agg(distinct attempts)::text from documents"
                " where lane = 'acte' and ocr_status = 'completed'"
            ),
            "violations": await db.fetch_value(
                "select count(*) from private.invariant_violations()"
            ),
        }


_IMAGES = (
    "from ocr_processing_logs as r join documents as d on d.id = document_id where lane = 'image'"
)


async def _measure_images(db: PoolDatabase, begin: str) -> list[float]:
    """Return median and maximum of the seconds from upload to text since `begin`."""
    return [
        round(
            await db.fetch_value(
                f"select percentile_cont({share}) within group (order by seconds_to_text)"  # ours
                f" {_IMAGES} and r.created_at > '{begin}'"
            ),
            2,
        )
        for share in (0.5, 1)
    ]


def _write_files(folder: Path) -> None:
    page = Image.new("L", (800, 1100), 255)
    page.save(folder / "image.png")
    page.save(folder / "acte.pdf", save_all=True, append_images=[page] * 19)


async def _add_images(db: PoolDatabase, images: int, seconds: float) -> None:
    for _ in range(images):
        await db.add_image()
        await asyncio.sleep(seconds)


async def _count_pages_per_second(db: PoolDatabase, seconds: float) -> float:
    first = await db.fetch_value("select count(*) from ocr_pages")
    start = time.monotonic()
    await asyncio.sleep(seconds)
    last = await db.fetch_value("select count(*) from ocr_pages")
    return float(last - first) / (time.monotonic() - start)


@contextlib.asynccontextmanager
async def _start_worker(db: PoolDatabase, files: Path) -> AsyncIterator[None]:
    """Run `pagewarden work` with two processes; stop it at the end."""
    environment = {
        "PAGEWARDEN_DATABASE_URL": db.worker_url,
        "PAGEWARDEN_FILES": str(files),
        "PAGEWARDEN_HOME": str(files / "home"),
        "PAGEWARDEN_POOL_FOLDER": str(files / "pool"),
    }
    command = (sys.executable, "-m", "pagewarden", "work")
    process = await asyncio.create_subprocess_exec(
        *(*command, "--processes", "2", "--engine", "fake-slow"),
        env=os.environ | environment,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def measure_drain(db: PoolDatabase, documents: int) -> dict[str, Any]:
    """Insert registry documents with plain SQL, and have two programs read them."""
    await db.clear()
    start = time.monotonic()
    await db.add("index", documents // 4)
    await db.add("acte", documents - documents // 4)
    inserted = time.monotonic() - start
    snapshots: list[Mapping[str, Any]] = []
    async with _start_programs(db, 2, count=4, size=8, interval_seconds=2.0):
        start = time.monotonic()
        while await db.count_waiting():
            rows = await (await db.conn.execute(WORKERS)).fetchall()
            snapshots.append({row["ocr_worker_id"]: row["active_jobs"] for row in rows})
            await asyncio.sleep(0.2)
        seconds = time.monotonic() - start
    return {
        "insert through the view, s": inserted,
        "drained, s": seconds,
        "documents per second": documents / seconds,
        "maximum of concurrent workers": max(map(len, snapshots)),
        "maximum of jobs per worker": max((n for s in snapshots for n in s.values()), default=0),
        **await _check_results(db),
    }


# Database and programs ----------------------------------------------------------------------------
# Start, observe and kill real programs with a real database.


INSERT = """
insert into extraction_queue (document_source, document_name, status_id, dropbox_path)
select %(lane)s, %(lane)s || ' ' || gen_random_uuid(), 3,
  coalesce(%(path)s, '/registry/' || n || '.pdf')
from generate_series(1, %(count)s) as n
"""
UPLOAD = """
select safe_document_reupload_v2(
  (select id from cases order by created_at limit 1), gen_random_uuid()::text, '/image.png', '.png',
  p_lane => 'image'
)
"""
WORKERS = """
select ocr_worker_id, count(*) as active_jobs, min(ocr_started_at) as oldest_job,
  max(ocr_started_at) as newest_job
from extraction_queue where status_id = 4 group by ocr_worker_id
"""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class PoolDatabase:
    """A database for pool programs, and a connection to observe it."""

    url: str
    worker_url: str
    conn: psycopg.AsyncConnection[dict[str, Any]]

    async def add(self, lane: str, count: int, path: str | None = None) -> None:
        """Insert registry documents through the view."""
        await self.conn.execute(INSERT, {"lane": lane, "count": count, "path": path})

    async def add_image(self) -> None:
        """Upload an image."""
        await self.conn.execute(UPLOAD)

    async def fetch_value(self, query: str) -> Any:  # noqa: ANN401  # any type of column
        """Return the value of a query with one column and row."""
        row = await (await self.conn.execute(query.encode())).fetchone()
        return next(iter(row.values())) if row else None

    async def wait_until(self, condition: str, *, seconds: float = 300.0) -> float:
        """Wait until an SQL condition is true; return the seconds."""
        start = time.monotonic()
        async with asyncio.timeout(seconds):
            while not await self.fetch_value(f"select {condition}"):  # noqa: ASYNC110  # other programs
                await asyncio.sleep(_POLL_SECONDS)
        return time.monotonic() - start

    async def count_waiting(self) -> int:
        """Count the documents that are not completed."""
        return int(
            await self.fetch_value("select count(*) from documents where ocr_status <> 'completed'")
        )

    async def clear(self) -> None:
        """Delete all documents and the state of the pool."""
        await self.conn.execute(
            "truncate documents, ocr_runs, ocr_pages, ocr_processing_logs, ocr_errors,"
            " private.queue, private.queue_delayed, private.queue_parked, private.claims,"
            " private.workers, private.pool_switches, private.pool_leader, private.pool_history,"
            " private.idle_lanes"
            " cascade"
        )


@contextlib.asynccontextmanager
async def open_pool_database() -> AsyncIterator[PoolDatabase]:
    """Start an embedded server with a migrated database in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="pagewarden-pool-") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101, S103  # the server runs as another user
        async with stack.open_migrated(Settings(home=Path(folder, "home"))) as found:
            assert found.server is not None  # noqa: S101  # for the type checker
            async with await psycopg.AsyncConnection.connect(
                found.url, autocommit=True, row_factory=dict_row
            ) as conn:
                yield PoolDatabase(found.url, found.server.url("pagewarden_worker"), conn)


@contextlib.asynccontextmanager
async def start_program(options: ProgramOptions) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a pool program; stop it at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.pool.program", options.model_dump_json()),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
