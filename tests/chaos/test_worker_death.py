"""Workers that are killed, for real, in the middle of a document."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagewarden import settings
from tests.chaos import crew
from tests.support import crowd, worker

if TYPE_CHECKING:
    import psycopg

    from tests.support import databases


ENDED = """not exists (
    select from public.documents where ocr_status not in ('completed', 'dead_letter')
)"""
TWO_SAVED = "(select count(*) from public.ocr_pages) = 2"
TAKEN_OVER = """exists (
    select from public.documents where locked_by like 'heir%%' or ocr_status = 'completed'
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
async def test_another_worker_goes_on_where_a_killed_one_was(
    database: databases.Database, lock: float, heartbeat: float
) -> None:
    """After kill -9 the document is in other hands soon, with its pages and the right counts."""
    orders = worker.Orders(
        url=database.url("pagewarden_worker"), lock_seconds=lock, heartbeat_seconds=heartbeat
    )
    async with await crowd.connect(database.url()) as conn:
        await crew.add(conn, ["book"])
        victim = orders.model_copy(update={"name": "victim", "stuck_at": 3})
        heir = orders.model_copy(update={"name": "heir"})
        async with crew.started(victim) as first:
            await crew.reads_page(first, 3)
            await crew.until(conn, TWO_SAVED)
            async with crew.started(heir):
                first.kill()
                seconds = await crew.until(conn, TAKEN_OVER)
                await crew.until(conn, ENDED)
        print(f"taken over {seconds:.1f} s after kill -9, with a lock of {lock:g} s")  # noqa: T201
        assert seconds < lock + 10
        counts = await crew.documents(conn, "attempts", "rescues", "retry_count")
        assert counts == [(2, 1, 0)]
        texts = await (
            await conn.execute("select text from public.ocr_pages order by page_number")
        ).fetchall()
        assert [text.split()[-1] for (text,) in texts] == ["victim"] * 2 + ["heir"] * 3


async def test_a_document_that_kills_every_worker_ends_in_the_dead_letters(
    database: databases.Database,
) -> None:
    """It is filed as resource after a few deaths, and the others are read all the same."""
    orders = worker.Orders(
        url=database.url("pagewarden_worker"),
        reader="killer",
        lock_seconds=1,
        heartbeat_seconds=0.3,
    )
    async with await crowd.connect(database.url()) as conn:
        await conn.execute("update public.lanes set backoff_seconds = 0, max_rescues = 2")
        await crew.add(conn, ["killer", "well 1", "well 2"])
        await _restart_until(conn, orders, ENDED)
        states = await crew.documents(conn, "name", "ocr_status", "rescues", "retry_count")
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
    conn: psycopg.AsyncConnection, orders: worker.Orders, condition: str
) -> None:
    """Start a worker again whenever it died, until the condition holds."""
    waiting = asyncio.create_task(crew.until(conn, condition))
    while not waiting.done():
        async with crew.started(orders) as process:
            death = asyncio.create_task(process.wait())
            await asyncio.wait({death, waiting}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
    await waiting
