"""A worker that runs all the time says so now and then, for people to see."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pagewarden.database import Database

log = structlog.get_logger(__name__)

# The database calls a worker silent that was not heard of three times in a row.
REPORT_SECONDS = 30.0
_LEAVING_SECONDS = 2.0


@contextlib.asynccontextmanager
async def reported(database: Database, worker_id: str, lanes: Sequence[str]) -> AsyncIterator[None]:
    """Report the worker meanwhile; nothing depends on it, so what fails is only logged."""
    left = asyncio.Event()
    reporting = asyncio.create_task(_report(database, worker_id, lanes, left))
    try:
        yield
    finally:
        left.set()
        # Whoever is told to stop does not wait for a database that is away.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await reporting
                await _say(database, worker_id, lanes, leaves=True)


async def _report(
    database: Database, worker_id: str, lanes: Sequence[str], left: asyncio.Event
) -> None:
    while not left.is_set():
        await _say(database, worker_id, lanes, leaves=False)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(left.wait(), REPORT_SECONDS)


async def _say(database: Database, worker_id: str, lanes: Sequence[str], *, leaves: bool) -> None:
    try:
        await database.report_worker(worker_id=worker_id, lanes=list(lanes), leaves=leaves)
    except errors.DatabaseError as exc:
        log.warning("report_failed", error=str(exc))
