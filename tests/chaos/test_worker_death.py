"""Workers are killed while they read a document."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden import settings
from tests.chaos import workers
from tests.support import crowd, worker

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases


ENDED = """not exists (
    select from public.documents where ocr_status not in ('completed', 'dead_letter')
)"""
TWO_SAVED = "(select count(*) from public.ocr_pages) = 2"
RECLAIMED = """exists (
    select from public.documents where locked_by like 'successor%%' or ocr_status = 'completed'
)"""


@pytest.mark.parametrize(
    ("lock", "heartbeat"),
    [
        (2, 0.5),
        pytest.param(
            settings.LOCK_SECONDS, settings.HEARTBEAT_SECONDS, marks=pytest.mark.long, id="default"
        ),
    ],
)
async def test_another_worker_resumes_after_a_kill(
    database: databases.Database, lock: float, heartbeat: float
) -> None:
    """After kill -9 another worker claims the document soon, with its saved pages and counts."""
    options = worker.WorkerOptions(
        url=database.url("pagewarden_worker"), lock_seconds=lock, heartbeat_seconds=heartbeat
    )
    async with await crowd.connect(database.url()) as conn:
        await workers.add_documents(conn, ["book"])
        victim = options.model_copy(update={"name": "victim", "stuck_at": 3})
        successor = options.model_copy(update={"name": "successor"})
        async with workers.start_worker(victim) as first:
            await workers.wait_for_page(first, 3)
            await workers.wait_until(conn, TWO_SAVED)
            async with workers.start_worker(successor):
                first.kill()
                seconds = await workers.wait_until(conn, RECLAIMED)
                await workers.wait_until(conn, ENDED)
        print(f"reclaimed {seconds:.1f} s after kill -9, with a lock of {lock:g} s")  # noqa: T201
        counts = await workers.select_documents(conn, "attempts", "rescues", "retry_count")
        assert counts == [(2, 0, 0)]  # pages were saved, so it is not counted as a rescue
        texts = await (
            await conn.execute("select text from public.ocr_pages order by page_number")
        ).fetchall()
        assert [text.split()[-1] for (text,) in texts] == ["victim"] * 2 + ["successor"] * 3


async def test_document_that_kills_every_worker_becomes_a_dead_letter(
    database: databases.Database,
) -> None:
    """After several deaths it is a dead letter of category `resource`; others are read."""
    options = worker.WorkerOptions(
        url=database.url("pagewarden_worker"),
        reader="killer",
        lock_seconds=1,
        heartbeat_seconds=0.3,
    )
    async with await crowd.connect(database.url()) as conn:
        await conn.execute("update public.lanes set backoff_seconds = 0, max_rescues = 2")
        await workers.add_documents(conn, ["killer", "well 1", "well 2"])
        await _restart_until(conn, options, ENDED)
        states = await workers.select_documents(
            conn, "name", "ocr_status", "rescues", "retry_count"
        )
        assert states == [
            ("killer", "dead_letter", 3, 0),
            ("well 1", "completed", 0, 0),
            ("well 2", "completed", 0, 0),
        ]
        letter = await (
            await conn.execute("select error_category, status from public.ocr_dead_letter")
        ).fetchall()
        assert letter == [("resource", "pending")]


async def _restart_until(
    conn: psycopg.AsyncConnection, options: worker.WorkerOptions, condition: str
) -> None:
    """Restart a worker whenever it dies, until the condition is true."""
    waiting = asyncio.create_task(workers.wait_until(conn, condition))
    while not waiting.done():
        async with workers.start_worker(options) as process:
            death = asyncio.create_task(process.wait())
            await asyncio.wait({death, waiting}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
    await waiting
