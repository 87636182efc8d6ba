"""An idle pool is quiet: it asks, waits for a hint, and asks again when it comes."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import TYPE_CHECKING

from pagewarden import database as gateways
from pagewarden import waking
from pagewarden.database import tables
from pagewarden.pool import plans, running
from tests.documents import readers
from tests.support import polling

if TYPE_CHECKING:
    from tests.support import databases

PLAN = plans.Plan(
    {"index": Fraction(1), "acte": Fraction(1)}, {"index": 1, "acte": 1}, 4, 4, 600.0, 99, 1e6
)


async def test_an_idle_pool_does_not_keep_the_database_busy(
    database: databases.Database,
) -> None:
    """Each worker looks, asks for a hint and looks again; then all is quiet."""
    async with await gateways.connect_direct(database.url()) as link:
        counted, hints, stop = readers.Counted(link), waking.Hints(), asyncio.Event()
        program = running.Program(counted, readers.Recorder(), hints, "p", 20, 5, 600)
        working = asyncio.create_task(program.run(PLAN, stop))
        looks = 4 * 3  # claim, wait, claim
        await polling.until(lambda: counted.of("claim_documents") >= 8)
        for _ in range(50):  # time enough for more
            await link.select(tables.lanes)
        assert counted.of("claim_documents", "wait_for_documents") <= looks + 4
        stop.set()
        await working
        assert (await link.rpc("pool_status"))["workers"] == []
