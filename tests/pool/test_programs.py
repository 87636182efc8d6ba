"""Programs of the pool for real: they follow the queue, are killed, and lose nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from psycopg.rows import dict_row

from benchmarks.pool import run
from benchmarks.pool.program import Orders

if TYPE_CHECKING:
    from tests.support import databases

INTERVAL = 1.0


@pytest.fixture
async def place(database: databases.Database) -> run.Field:
    """Watch a database of our own, as a plain SQL client."""
    conn = await database.connect()
    conn.row_factory = dict_row  # type: ignore[assignment]  # of later cursors
    return run.Field(database.url(), database.url("pagewarden_worker"), conn)  # type: ignore[arg-type]  # as above


async def test_the_split_follows_the_queue_and_survives_deaths(place: run.Field) -> None:
    """Within two intervals; with leader and another program killed, all is read once."""
    found = await run.following(place, interval=INTERVAL, documents=320, cost=0.4)
    assert found["intervals until most serve index"] < 3  # two, and one for a slow machine
    assert found["intervals until most serve acte"] < 3
    assert (found["documents"], found["read twice"], found["violations"]) == (320, 0, 0)
    assert found["results"] == 320


async def test_a_registry_row_without_its_file_ends_as_an_error(
    place: run.Field, database: databases.Database
) -> None:
    """ocr_error says so after each attempt, and after the last one the status is 6."""
    await place.add("acte", 1)
    orders = Orders(
        url=place.worker_url, process="p", count=1, size=1, missing=True, interval_seconds=INTERVAL
    )
    conn = await database.connect()
    await conn.execute("update lanes set backoff_seconds = 0 where lane = 'acte'")
    async with run.start_program(orders):
        await place.until("(select status_id = 6 from extraction_queue)")
    assert "not there" in await place.one("select ocr_error from extraction_queue")
    assert await place.one("select error_message from extraction_queue") is None
    assert await place.one("select ocr_attempts = ocr_max_attempts from extraction_queue")


async def test_an_idle_pool_begins_at_once(place: run.Field) -> None:
    """Not at the next poll: a document is read long before an idle worker would look again."""
    orders = Orders(
        url=place.worker_url, process="p", count=2, size=2, idle_seconds=60, interval_seconds=60
    )
    async with run.start_program(orders):
        await place.until("(select count(*) = 2 from private.idle_lanes)")
        await place.add("acte", 1)
        with contextlib.suppress(TimeoutError):
            await place.until(run.ALL_READ, seconds=20)
    assert await place.one(f"select {run.ALL_READ}")
