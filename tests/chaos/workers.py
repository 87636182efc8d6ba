"""Start worker processes, and wait for conditions in the database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.support import crowd, worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

TIMEOUT_SECONDS = 120


@contextlib.asynccontextmanager
async def start_worker(options: worker.WorkerOptions) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a worker process; end it at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.worker", options.model_dump_json(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def wait_for_page(process: asyncio.subprocess.Process, number: int) -> None:
    """Wait until the process starts to read a page with this number."""
    assert process.stdout is not None
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (line := await process.stdout.readline()).split()[1:] != [str(number).encode()]:
            assert line, "the worker ended"


async def wait_until(conn: psycopg.AsyncConnection, condition: str) -> float:
    """Wait until an SQL condition is true; return the seconds."""
    start = time.monotonic()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await crowd.fetch_value(conn, f"select {condition}"):  # noqa: ASYNC110  # other processes
            await asyncio.sleep(0.05)
    return time.monotonic() - start


async def select_documents(conn: psycopg.AsyncConnection, *columns: str) -> list[tuple[Any, ...]]:
    """Select columns of all documents, ordered by name."""
    query = f"select {', '.join(columns)} from public.documents order by name"
    return await (await conn.execute(query.encode())).fetchall()


async def add_documents(conn: psycopg.AsyncConnection, names: list[str]) -> None:
    """Add documents to the queue."""
    case = await crowd.fetch_value(conn, "select public.create_case('chaos')")
    listed = json.dumps([{"name": name} for name in names])
    await conn.execute("select public.add_documents(%s, %s, 'image')", (case, listed))
