"""An idle program of the pool claims once, waits for a notification, and claims again."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import TYPE_CHECKING

from pagewarden import database as gateways
from pagewarden.database import listener, tables
from pagewarden.pool.capacity import ResourceCost
from pagewarden.pool.plan import PoolPlan
from pagewarden.pool.program import PoolProgram
from tests.documents import readers
from tests.support import polling
from tests.support.single_reader import SingleReader

if TYPE_CHECKING:
    from tests.support import databases

PLAN = PoolPlan(
    {"index": Fraction(1), "acte": Fraction(1)},
    {"index": 1, "acte": 1},
    4,
    4,
    600.0,
    ResourceCost(99, 1e6),
)


async def test_idle_pool_does_not_poll_the_database(
    database: databases.Database,
) -> None:
    """Each worker claims, subscribes and claims again; then no more calls follow."""
    async with await gateways.connect_direct(database.url()) as link:
        counted, hints, stop = readers.Counted(link), listener.Listener(), asyncio.Event()
        program = PoolProgram(counted, SingleReader(readers.Recorder()), hints, "p", 20, 5, 600)
        working = asyncio.create_task(program.run(PLAN, stop))
        calls = 4 * 3  # claim, wait, claim
        await polling.wait_until(lambda: counted.of("claim_documents") >= 8)
        for _ in range(50):  # time for more calls
            await link.select(tables.lanes)
        assert counted.of("claim_documents", "wait_for_documents") <= calls + 4
        stop.set()
        await working
        assert (await link.pool_status())["workers"] == []
