"""Start workers, watch them, and wait for what they do to the database."""

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

PATIENCE = 120


@contextlib.asynccontextmanager
async def started(orders: worker.Orders) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process of workers, and end it whatever happens."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.worker", orders.model_dump_json(),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def reads_page(process: asyncio.subprocess.Process, number: int) -> None:
    """Wait until the process is about to read a page of this number."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        while (line := await process.stdout.readline()).split()[1:] != [str(number).encode()]:
            assert line, "the worker ended"


async def until(conn: psycopg.AsyncConnection, condition: str) -> float:
    """Wait until the condition holds; return how many seconds that took."""
    begin = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        while not await crowd.call(conn, f"select {condition}"):  # noqa: ASYNC110  # other processes
            await asyncio.sleep(0.05)
    return time.monotonic() - begin


async def documents(conn: psycopg.AsyncConnection, *columns: str) -> list[tuple[Any, ...]]:
    """Read these columns of all documents, in the order of their names."""
    query = f"select {', '.join(columns)} from public.documents order by name"
    return await (await conn.execute(query.encode())).fetchall()


async def add(conn: psycopg.AsyncConnection, names: list[str]) -> None:
    """Take documents in."""
    case = await crowd.call(conn, "select public.create_case('chaos')")
    listed = json.dumps([{"name": name} for name in names])
    await conn.execute("select public.add_documents(%s, %s, 'image')", (case, listed))
