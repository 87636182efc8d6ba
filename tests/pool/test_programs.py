"""Real programs of the pool follow the queue, and a killed one loses no document."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from psycopg.rows import dict_row

from benchmarks.pool import run
from benchmarks.pool.program import ProgramOptions

if TYPE_CHECKING:
    from tests.support import databases

INTERVAL = 1.0


@pytest.fixture
async def db(database: databases.Database) -> run.PoolDatabase:
    """Observe the database as a plain SQL client."""
    conn = await database.connect()
    conn.row_factory = dict_row  # type: ignore[assignment]  # of later cursors
    return run.PoolDatabase(database.url(), database.url("pagewarden_worker"), conn)  # type: ignore[arg-type]  # as above


async def test_allocation_follows_the_queue_and_survives_deaths(db: run.PoolDatabase) -> None:
    """Within two intervals; leader and another program are killed, each document is read once."""
    figures = await run.measure_rebalancing(
        db, interval=INTERVAL, documents=320, reading_seconds=0.4
    )
    assert figures["intervals until most serve index"] < 3  # two, and one more for a slow machine
    assert figures["intervals until most serve acte"] < 3
    assert (figures["documents"], figures["read twice"], figures["violations"]) == (320, 0, 0)
    assert figures["results"] == 320


async def test_registry_row_without_its_file_ends_with_an_error(
    db: run.PoolDatabase, database: databases.Database
) -> None:
    """Each attempt sets ocr_error; after the last one the status is 6."""
    await db.add("acte", 1)
    options = ProgramOptions(
        url=db.worker_url, process="p", count=1, size=1, missing=True, interval_seconds=INTERVAL
    )
    conn = await database.connect()
    await conn.execute("update lanes set backoff_seconds = 0 where lane = 'acte'")
    async with run.start_program(options):
        await db.wait_until("(select status_id = 6 from extraction_queue)")
    assert "missing" in await db.fetch_value("select ocr_error from extraction_queue")
    assert await db.fetch_value("select error_message from extraction_queue") is None
    assert await db.fetch_value("select ocr_attempts = ocr_max_attempts from extraction_queue")


async def test_idle_pool_starts_immediately(db: run.PoolDatabase) -> None:
    """A document is read long before the next poll of an idle worker."""
    options = ProgramOptions(
        url=db.worker_url, process="p", count=2, size=2, idle_seconds=60, interval_seconds=60
    )
    async with run.start_program(options):
        await db.wait_until("(select count(*) = 2 from private.idle_lanes)")
        await db.add("acte", 1)
        with contextlib.suppress(TimeoutError):
            await db.wait_until(run.ALL_READ, seconds=20)
    assert await db.fetch_value(f"select {run.ALL_READ}")
