"""Kill programs at random and restart them, while messages are duplicated and reordered."""

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

Random = random.Random
TIMEOUT_SECONDS = 120.0

# Programs are forked from a server that has loaded everything, so restarts are fast.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.volumes.program", "pagewarden.volumes.queues.sqs"])

# Copy earlier messages of any stage into the queue of a stage, visible now or a little later.
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
# Make received messages visible before their timeout ends.
_SHOW = "update pgmq.q_ocr_{} set vt = clock_timestamp() where random() < 0.5"


@dataclasses.dataclass
class RunningPrograms:
    """The running programs by name, and the number of kills."""

    orders: Sequence[program.Orders]
    random: Random
    running: dict[str, BaseProcess] = dataclasses.field(default_factory=dict)
    kills: int = 0

    def start(self) -> None:
        """Start the programs that are not running."""
        for orders in self.orders:
            current = self.running.get(orders.name)
            if current is None or not current.is_alive():
                # A restarted process has another worker id.
                renamed = dataclasses.replace(orders, name=f"{orders.name}-{self.kills}")
                process = _context.Process(target=program.run, args=(renamed,), daemon=True)
                process.start()
                self.running[orders.name] = process

    def kill(self) -> None:
        """Kill a random program."""
        name = self.random.choice(list(self.running))
        self.running[name].kill()
        self.running[name].join()
        self.kills += 1

    async def freeze(self, seconds: float) -> None:
        """Stop a random worker for a while; then it continues with an outdated lock."""
        workers = [p for name, p in self.running.items() if not name.startswith("orchestrator")]
        victim = self.random.choice(workers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid or 0, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            os.kill(victim.pid or 0, signal.SIGCONT)

    async def end(self) -> None:
        """Kill all programs."""
        for process in self.running.values():
            process.kill()
            process.join()


@contextlib.asynccontextmanager
async def start_programs(
    orders: Sequence[program.Orders], seed: int
) -> AsyncIterator[RunningPrograms]:
    """Start programs; kill them at the end."""
    programs = RunningPrograms(orders, Random(seed))  # reproducible, not a secret
    try:
        programs.start()
        yield programs
    finally:
        await programs.end()


async def kill_repeatedly(
    programs: RunningPrograms,
    *,
    kills: int,
    pause: float,
    mix_up: Callable[[Random], Awaitable[Any]],
    is_over: Callable[[], Awaitable[bool]],
) -> None:
    """Kill programs one after another and mix up messages, then wait for the end.

    After every fifth kill a worker is frozen until another one has its volume.
    """
    frozen: list[asyncio.Task[None]] = []
    while programs.kills < kills:
        await asyncio.sleep(programs.random.uniform(0, 2 * pause))
        programs.kill()
        programs.start()
        if programs.kills % 5 == 0:
            seconds = 1.5 * programs.orders[0].lock_seconds
            frozen.append(asyncio.create_task(programs.freeze(seconds)))
        await mix_up(programs.random)
    await asyncio.gather(*frozen)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await is_over():
            programs.start()
            await asyncio.sleep(0.1)


async def mix_up(conn: psycopg.AsyncConnection, random: Random) -> None:
    """Duplicate some messages into a random queue, and make some visible early."""
    stage = random.choice(stages.STAGES)
    await conn.execute(_COPY, (stage,))
    await conn.execute(_SHOW.format(random.choice(stages.STAGES)).encode())
