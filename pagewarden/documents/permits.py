"""One limit for the calls of all workers to an engine that is somewhere else, kept in Postgres."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagewarden.database import Database
    from pagewarden.reading import engines


def permit(database: Database, per_second: float | None) -> engines.Permit | None:
    """Make what engines ask before each call, from their threads; None where there is no limit."""
    if per_second is None:
        return None
    loop = asyncio.get_running_loop()

    async def take(engine: str) -> float:
        return await database.take_engine_call(engine=engine, per_second=per_second)

    def ask(engine: str) -> float:
        return asyncio.run_coroutine_threadsafe(take(engine), loop).result()

    return ask
