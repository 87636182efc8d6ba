"""Compare the policies of the pool in a simulation, then measure real programs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row
from rich.console import Console
from rich.table import Table

from benchmarks.pool import simulation
from benchmarks.pool.program import Orders
from pagewarden.local import stack
from pagewarden.pool import plans
from pagewarden.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


SIZE = 15
POLICIES = (simulation.FIXED, simulation.PLAIN, simulation.POOL)
COST_SECONDS = 0.1
SHARED = 120
"""Documents that one worker, and then two, read."""
MANY = 2000
"""Documents whose reading costs nothing."""
ALL_READ = "not exists (select from documents where ocr_status <> 'completed')"
_MS = 1000

out = Console(highlight=False)


def run(*, days: int, documents: int, simulation_only: bool) -> str:
    """Measure, show the figures, and give all of them as JSON."""
    found: dict[str, Any] = {"simulation": simulated(days)}
    if not simulation_only:
        found["programs"] = asyncio.run(_programs(documents))
    return json.dumps(found, indent=1)


# The simulation ----------------------------------------------------------------------------


def simulated(days: int) -> list[dict[str, Any]]:
    """Compare the policies in every scenario."""
    plan = plans.Plan(
        dict.fromkeys(simulation.SECONDS_OF, Fraction(1)),
        dict.fromkeys(simulation.SECONDS_OF, 1),
        SIZE, SIZE, 30.0, cpu=1e9, megabytes=1e9,
    )  # fmt: skip
    table = Table(
        "scenario", "policy", "min", "index, s", "acte, s", "moves/h", "min, ratio", "s, ratio",
        title=f"{SIZE} workers: minutes to drain, longest waits, and how much better than fixed",
    )  # fmt: skip
    rows = []
    for scenario in simulation.scenarios(days):
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
            row = _row(scenario, name, result, results[simulation.FIXED.name])
            rows.append(row)
            table.add_row(*(_cell(value) for value in row.values()))
        table.add_section()
    out.print(table)
    return rows


def _row(
    scenario: simulation.Scenario, name: str, result: simulation.Result, fixed: simulation.Result
) -> dict[str, Any]:
    drained, by_fixed = (r.drained - scenario.begins for r in (result, fixed))
    return {
        "scenario": scenario.name,
        "policy": name,
        "drained_minutes": drained / 60,
        "index_wait": result.waits.get("index", 0.0),
        "acte_wait": result.waits.get("acte", 0.0),
        "switches_per_hour": result.switches / (result.drained / simulation.HOUR),
        "drained_ratio": f"{by_fixed / drained:.2f}",
        "wait_ratio": f"{fixed.longest_wait / max(result.longest_wait, 1e-9):.2f}",
    }


def _cell(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


# Real programs -----------------------------------------------------------------------------


async def _programs(documents: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    async with open_field() as place:
        for name, measure in (
            ("eight workers, four programs, two of them killed", following),
            ("one worker, then two", speed_up),
            ("a document beside its reading", overhead),
            ("registry drained", functools.partial(drain, documents=documents)),
        ):
            with out.status(name):
                found[name] = await measure(place)
            _show(name, found[name])
    return found


def _show(name: str, figures: Mapping[str, Any]) -> None:
    table = Table(name, "")
    for what, value in figures.items():
        table.add_row(what, f"{value:.2f}" if isinstance(value, float) else str(value))
    out.print(table)


@contextlib.asynccontextmanager
async def _pool(place: Field, programs: int, **wishes: Any) -> AsyncIterator[list[Any]]:  # noqa: ANN401  # fields of the orders
    """Run so many programs."""
    async with contextlib.AsyncExitStack() as resources:
        yield [
            await resources.enter_async_context(
                start_program(Orders(url=place.worker_url, process=f"program-{number}", **wishes))
            )
            for number in range(1, programs + 1)
        ]


async def following(
    place: Field, *, interval: float = 2.0, documents: int = 1900, cost: float = 0.1
) -> dict[str, Any]:
    """Eight workers in four programs: how soon the split is that of the queue, and after deaths."""
    await place.empty()
    costs = {"index": cost, "acte": cost}
    wishes = {"interval_seconds": interval, "seconds_of": costs, "lock_seconds": 3}
    async with _pool(place, 4, heartbeat_seconds=1, **wishes) as programs:
        await place.until(_posted(8))
        first = documents // 4
        await place.add("index", first - first // 8)
        await place.add("acte", first // 8)
        to_index = await place.until(_split(index=7, acte=1))
        await place.add("acte", documents - first)
        to_acte = await place.until(_split(index=1, acte=7))
        leader = await place.one("select process from private.pool_leader")
        programs[int(leader.rpartition("-")[2]) - 1].kill()
        to_leader = await place.until(
            f"exists (select from private.pool_leader where process <> '{leader}')"
        )
        programs[int(leader.rpartition("-")[2]) % 4].kill()
        all_read = await place.until(
            "not exists (select from documents where ocr_status <> 'completed')"
        )
    return {
        "intervals until most serve index": to_index / interval,
        "intervals until most serve acte": to_acte / interval,
        "intervals until another leads": to_leader / interval,
        "seconds until all are read": all_read,
        **await _proof(place),
    }


def _posted(count: int) -> str:
    return f"(select count(lane) = {count} from private.pool_workers)"  # noqa: S608  # a number


def _split(**lanes: int) -> str:
    counts = " and ".join(
        f"count(*) filter (where lane = '{lane}') = {count}" for lane, count in lanes.items()
    )
    return f"(select {counts} from private.pool_workers)"  # noqa: S608  # our own lanes


async def _proof(place: Field) -> dict[str, Any]:
    """Say how many documents there are, how many results, and what should not be."""
    return {
        "documents": await place.one("select count(*) from documents"),
        "results": await place.one("select count(*) from ocr_processing_logs"),
        "read twice": await place.one(
            "select count(*) - count(distinct document_id) from ocr_processing_logs"
        ),
        "violations": await place.one("select count(*) from private.invariant_violations()"),
    }


async def speed_up(place: Field) -> dict[str, float]:
    """One worker, then two, on a mixed queue where reading is the cost."""
    seconds = {}
    for count in (1, 2):
        seconds[count] = await _seconds(place, SHARED, COST_SECONDS, count=count)
    return {
        "one worker, s": seconds[1],
        "two workers, s": seconds[2],
        "times as fast": seconds[1] / seconds[2],
    }


async def overhead(place: Field) -> dict[str, float]:
    """Measure what a document costs besides its reading, by a worker of the pool and by another."""
    plain = await _seconds(place, MANY, 0.0, count=1, plain=True) / MANY * _MS
    ours = await _seconds(place, MANY, 0.0, count=1) / MANY * _MS
    return {
        "worker of no pool, ms": plain,
        "worker of the pool, ms": ours,
        "more, ms": ours - plain,
    }


async def _seconds(
    place: Field, documents: int, cost: float, *, count: int, plain: bool = False
) -> float:
    """Let so many workers read a mixed queue, from the first claim on."""
    await place.empty()
    orders = Orders(
        url=place.worker_url,
        process="program-1",
        count=count,
        size=count,
        plain=plain,
        seconds_of={"index": cost, "acte": cost},
    )
    async with start_program(orders):
        await place.until(
            "(select count(*) = 2 from private.idle_lanes)" if plain else _posted(count)
        )
        begun = time.monotonic()
        await place.add("index", documents // 2)
        await place.add("acte", documents // 2)
        await place.until(ALL_READ)
        return time.monotonic() - begun


async def drain(place: Field, documents: int) -> dict[str, Any]:
    """Insert registry documents as any SQL client does, and let two programs drain them."""
    await place.empty()
    begun = time.monotonic()
    await place.add("index", documents // 4)
    await place.add("acte", documents - documents // 4)
    inserted = time.monotonic() - begun
    pictures: list[Mapping[str, Any]] = []
    async with _pool(place, 2, count=4, size=8, interval_seconds=2.0):
        begun = time.monotonic()
        while await place.waiting():
            rows = await (await place.conn.execute(WORKERS)).fetchall()
            pictures.append({row["ocr_worker_id"]: row["active_jobs"] for row in rows})
            await asyncio.sleep(0.2)
        seconds = time.monotonic() - begun
    return {
        "insert through the view, s": inserted,
        "drained, s": seconds,
        "documents per second": documents / seconds,
        "most workers at once": max(map(len, pictures)),
        "most jobs of a worker": max((n for p in pictures for n in p.values()), default=0),
        **await _proof(place),
    }


# Database and programs ----------------------------------------------------------------------------
# Real programs of the pool on a real database: started, watched, killed.


INSERT = """
insert into extraction_queue (document_source, document_name, status_id, dropbox_path)
select %(lane)s, %(lane)s || ' ' || gen_random_uuid(), 3, '/registry/' || n || '.pdf'
from generate_series(1, %(count)s) as n
"""
WORKERS = """
select ocr_worker_id, count(*) as active_jobs, min(ocr_started_at) as oldest_job,
  max(ocr_started_at) as newest_job
from extraction_queue where status_id = 4 group by ocr_worker_id
"""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Field:
    """A database, and a connection to watch it: a plain SQL client."""

    url: str
    worker_url: str
    conn: psycopg.AsyncConnection[dict[str, Any]]

    async def add(self, lane: str, count: int) -> None:
        """Put registry documents into the queue, through the view."""
        await self.conn.execute(INSERT, {"lane": lane, "count": count})

    async def one(self, query: str) -> Any:  # noqa: ANN401  # whatever it is
        """Ask for one value."""
        row = await (await self.conn.execute(query.encode())).fetchone()
        return next(iter(row.values())) if row else None

    async def until(self, condition: str, *, seconds: float = 300.0) -> float:
        """Wait until the condition holds, and give the seconds that took."""
        begun = time.monotonic()
        async with asyncio.timeout(seconds):
            while not await self.one(f"select {condition}"):  # noqa: ASYNC110  # other programs
                await asyncio.sleep(_POLL_SECONDS)
        return time.monotonic() - begun

    async def waiting(self) -> int:
        """Count the documents that are not completed."""
        return int(await self.one("select count(*) from documents where ocr_status <> 'completed'"))

    async def empty(self) -> None:
        """Forget all documents, and the pool."""
        await self.conn.execute(
            "truncate documents, ocr_runs, ocr_pages, ocr_processing_logs, ocr_errors,"
            " private.queue, private.queue_delayed, private.queue_parked, private.claims,"
            " private.pool_workers, private.pool_leader, private.pool_history, private.idle_lanes"
            " cascade"
        )


@contextlib.asynccontextmanager
async def open_field() -> AsyncIterator[Field]:
    """Start an embedded server of our own, with everything in it."""
    with tempfile.TemporaryDirectory(prefix="pagewarden-pool-") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101, S103  # the server has another account
        async with stack.ready(Settings(home=Path(folder, "home"))) as found:
            assert found.server is not None  # noqa: S101  # for the type checker
            async with await psycopg.AsyncConnection.connect(
                found.url, autocommit=True, row_factory=dict_row
            ) as conn:
                yield Field(found.url, found.server.url("pagewarden_worker"), conn)


@contextlib.asynccontextmanager
async def start_program(orders: Orders) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program of the pool, and end it whatever happens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.pool.program", orders.model_dump_json()),
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
