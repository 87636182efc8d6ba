"""What pg_cron does on Supabase, for a Postgres without it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors

if TYPE_CHECKING:
    from pagewarden.database import Database

log = structlog.get_logger(__name__)


async def sweep(database: Database, stop: asyncio.Event, *, seconds: float) -> None:
    """Give back what dead workers hold, every so many seconds, until stop is set.

    A database that is away is tried again next time; nothing else ends this.
    """
    while not stop.is_set():
        try:
            taken = await database.rpc("sweep_documents")
        except (errors.DatabaseAway, errors.Conflict) as exc:
            log.warning("sweep_failed", error=str(exc))
        else:
            if taken:
                log.info("swept", documents=taken)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
