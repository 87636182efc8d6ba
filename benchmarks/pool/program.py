"""A pool program whose engine waits for a configured time, for benchmarks and tests.

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

from pagewarden import database, errors
from pagewarden.database import listener
from pagewarden.documents.claim import Claim, DocumentReader, Page, ReadingRun
from pagewarden.pool import plan
from pagewarden.pool.capacity import ResourceCost
from pagewarden.pool.program import PoolProgram

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class ProgramOptions(pydantic.BaseModel):
    """Options of the program; `cpu` limits the number of concurrent documents.

    With `missing`, files are reported as missing. A document has `pages` pages in lane acte, one in
    all others.
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
    pages: int = 1
    seconds_of: dict[str, float] = {"index": 0.0, "acte": 0.0}

    def to_plan(self) -> plan.PoolPlan:
        """Make a pool plan of these options."""
        weights = dict.fromkeys(self.seconds_of, Fraction(1))
        minimums = dict.fromkeys({"index", "acte"} & self.seconds_of.keys(), 1)
        limit = ResourceCost(self.cpu, 1e9)
        return plan.PoolPlan(weights, minimums, self.size, self.count, self.interval_seconds, limit)


@dataclass(frozen=True, slots=True)
class TimedReader:
    """Reads each page in the time configured for its lane."""

    options: ProgramOptions

    async def select_reader(self, claim: Claim) -> DocumentReader:
        """Return this reader, which reads all documents."""
        del claim
        return self

    async def get_run(self, claim: Claim) -> ReadingRun:
        """Return the same engine and version for all programs."""
        del claim
        return ReadingRun("steady", "1")

    async def read(self, claim: Claim, done: frozenset[int]) -> AsyncGenerator[Page]:
        """Wait for the time of the lane before each page that is not done."""
        if self.options.missing:
            raise errors.FileNotFound(f"{claim.path} is missing")
        count = self.options.pages if claim.lane == "acte" else 1
        for number in range(1, count + 1):
            if number not in done:
                await asyncio.sleep(self.options.seconds_of[claim.lane])
                yield Page(number, text=claim.name, confidence=0.9, of=count)


async def main(options: ProgramOptions) -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        await database.connect_direct(options.url, connections=2 * options.count + 2) as connection,
        listener.open_listener(options.url) as changes,
    ):
        program = PoolProgram(
            connection,
            TimedReader(options),
            changes,
            options.process,
            options.lock_seconds,
            options.heartbeat_seconds,
            options.idle_seconds,
        )
        await program.run(options.to_plan(), stop)


if __name__ == "__main__":
    asyncio.run(main(ProgramOptions.model_validate_json(sys.argv[1])))
