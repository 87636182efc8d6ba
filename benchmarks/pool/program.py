"""A program of the pool whose reading costs exactly what it is told: for measuring and for tests.

python -m benchmarks.pool.program '{"url": …, "process": "a", …}'
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import pydantic

from pagewarden import database, documents, errors, waking
from pagewarden.documents import claims
from pagewarden.pool import plans, running

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping


class Orders(pydantic.BaseModel):
    """What the program is to do; cpu bounds how many documents it reads at once.

    With missing no document has its file; plain is a worker that is of no pool, to compare with.
    """

    url: str
    process: str
    count: int = 2
    size: int = 8
    interval_seconds: float = 2.0
    lock_seconds: float = 20.0
    heartbeat_seconds: float = 5.0
    idle_seconds: float = 1.0
    cpu: float = 1000.0
    missing: bool = False
    plain: bool = False
    seconds_of: dict[str, float] = {"index": 0.0, "acte": 0.0}

    def plan(self) -> plans.Plan:
        """Make the plan of these orders."""
        weights = dict.fromkeys(self.seconds_of, Fraction(1))
        minimums = dict.fromkeys(self.seconds_of, 1) if self.size >= len(weights) else {}
        return plans.Plan(
            weights, minimums, self.size, self.count, self.interval_seconds, self.cpu, 1e9
        )


@dataclass(frozen=True, slots=True)
class Steady:
    """Reads one page of every document, in the time of its lane."""

    seconds_of: Mapping[str, float]
    missing: bool

    async def run_for(self, claim: claims.Claim) -> claims.Run:
        """All programs read with the same engine."""
        del claim
        return claims.Run("steady", "1")

    async def read(self, claim: claims.Claim, done: frozenset[int]) -> AsyncGenerator[claims.Page]:
        """Wait, and have read it."""
        del done
        if self.missing:
            raise errors.FileNotThere(f"{claim.path} is not there")
        await asyncio.sleep(self.seconds_of[claim.lane])
        yield claims.Page(1, text=claim.name, confidence=0.9)


async def main(orders: Orders) -> None:
    """Work until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        await database.connect_direct(orders.url, connections=2 * orders.count + 2) as link,
        waking.listening(orders.url) as hints,
    ):
        if orders.plain:
            await _plain(orders, link, hints).run(stop)
            return
        program = running.Program(
            link,
            Steady(orders.seconds_of, orders.missing),
            hints,
            orders.process,
            orders.lock_seconds,
            orders.heartbeat_seconds,
            orders.idle_seconds,
        )
        await program.run(orders.plan(), stop)


def _plain(orders: Orders, link: database.Database, hints: waking.Hints) -> documents.Worker:
    return documents.Worker(
        link,
        Steady(orders.seconds_of, orders.missing),
        worker_id=orders.process,
        lanes=list(orders.seconds_of),
        lock_seconds=orders.lock_seconds,
        heartbeat_seconds=orders.heartbeat_seconds,
        hints=hints,
    )


if __name__ == "__main__":
    asyncio.run(main(Orders.model_validate_json(sys.argv[1])))
