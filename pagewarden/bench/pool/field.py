"""Real programs of the pool on a real database: started, watched, killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from pagewarden.local import stack
from pagewarden.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.bench.pool.program import Orders

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
async def opened() -> AsyncIterator[Field]:
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
async def started(orders: Orders) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program of the pool, and end it whatever happens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pagewarden.bench.pool.program", orders.model_dump_json()),
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
