"""Programs that are killed at random and started again, while messages are doubled and mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import multiprocessing
import os
import random
import signal
from typing import TYPE_CHECKING, Any

from pagewarden.volumes import stages
from tests.volumes import program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from multiprocessing.process import BaseProcess

    import psycopg

Chance = random.Random
PATIENCE_SECONDS = 120.0

# Programs are forked from one that has everything loaded, so that many can die in little time.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.volumes.program", "pagewarden.volumes.queues.sqs"])

# Any message that ever was, in the queue of any stage, now or in a moment.
_COPY = """
    select pgmq.send('ocr_' || %s, m.message, (random() * 3)::integer)
    from (
      select message from private.volume_messages()
      union all select message from pgmq.a_ocr_line_detection
      union all select message from pgmq.a_ocr_line_extraction
      union all select message from pgmq.a_ocr_ocr
      union all select message from pgmq.a_ocr_reduce
    ) as m
    order by random()
    limit 2
"""
# Somebody's message shows before its time.
_SHOW = "update pgmq.q_ocr_{} set vt = clock_timestamp() where random() < 0.5"


@dataclasses.dataclass
class Siege:
    """The programs that run now, by name, and how many died."""

    orders: Sequence[program.Orders]
    chance: Chance
    running: dict[str, BaseProcess] = dataclasses.field(default_factory=dict)
    deaths: int = 0

    def start(self) -> None:
        """Start whoever does not run."""
        for orders in self.orders:
            found = self.running.get(orders.name)
            if found is None or not found.is_alive():
                # Whoever is born again has another name, as a process has another number.
                born = dataclasses.replace(orders, name=f"{orders.name}-{self.deaths}")
                process = _context.Process(target=program.run, args=(born,), daemon=True)
                process.start()
                self.running[orders.name] = process

    def kill(self) -> None:
        """Kill somebody, wherever it is just now."""
        name = self.chance.choice(list(self.running))
        self.running[name].kill()
        self.running[name].join()
        self.deaths += 1

    async def freeze(self, seconds: float) -> None:
        """Have a worker stand still for so long; it goes on as if nothing had happened."""
        workers = [p for name, p in self.running.items() if not name.startswith("orchestrator")]
        victim = self.chance.choice(workers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid or 0, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            os.kill(victim.pid or 0, signal.SIGCONT)

    async def end(self) -> None:
        """End all of them."""
        for process in self.running.values():
            process.kill()
            process.join()


@contextlib.asynccontextmanager
async def laid(orders: Sequence[program.Orders], seed: int) -> AsyncIterator[Siege]:
    """Start programs, and end them whatever happens."""
    siege = Siege(orders, Chance(seed))  # the same run again, not a secret
    try:
        siege.start()
        yield siege
    finally:
        await siege.end()


async def storm(
    siege: Siege,
    *,
    deaths: int,
    pause: float,
    mix_up: Callable[[Chance], Awaitable[Any]],
    is_over: Callable[[], Awaitable[bool]],
) -> None:
    """Kill so many, one after the other, and mix messages up, then wait for the end.

    After every fifth death a worker stands still until somebody else has its volume.
    """
    frozen: list[asyncio.Task[None]] = []
    while siege.deaths < deaths:
        await asyncio.sleep(siege.chance.uniform(0, 2 * pause))
        siege.kill()
        siege.start()
        if siege.deaths % 5 == 0:
            seconds = 1.5 * siege.orders[0].lock_seconds
            frozen.append(asyncio.create_task(siege.freeze(seconds)))
        await mix_up(siege.chance)
    await asyncio.gather(*frozen)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_over():
            siege.start()
            await asyncio.sleep(0.1)


async def mix_up(conn: psycopg.AsyncConnection, chance: Chance) -> None:
    """Double some messages of pgmq, in some queue, and show some before their time."""
    stage = chance.choice(stages.STAGES)
    await conn.execute(_COPY, (stage,))
    await conn.execute(_SHOW.format(chance.choice(stages.STAGES)).encode())
