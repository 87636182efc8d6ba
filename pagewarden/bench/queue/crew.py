"""Start the processes of one round, give them orders, gather what they noted."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.bench.queue import contestant, load, peers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext, ForkServerProcess

_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Phase:
    """What happened to the jobs of one set of orders.

    latencies are seconds from the call that enqueued a job to the commit that completed it, in
    no order. cpu_shares has for every process the share of one core that it used.
    """

    jobs: int
    seconds: float
    latencies: list[float]
    cpu_shares: list[float]


@dataclass(frozen=True, slots=True)
class Member:
    """A process and the line to it."""

    process: ForkServerProcess
    pipe: Connection


@dataclass(slots=True)
class Crew:
    """The workers and producers of one round, connected and at work."""

    members: list[Member]
    workers: int
    counts: load.Counts

    @property
    def producers(self) -> int:
        """How many of the members produce."""
        return len(self.members) - self.workers

    def completed(self) -> list[int]:
        """Count the jobs each worker has completed so far."""
        return [self.counts[seat] for seat in range(self.workers)]

    async def perform(self, orders: list[load.Order]) -> Phase:
        """Give each producer its order and wait until every job is completed."""
        await self._collect()  # forget what came before
        begun = time.monotonic()
        producers = self.members[self.workers :]
        for member, order in zip(producers, orders, strict=True):
            member.pipe.send(order)
        enqueued = [await self._receive(member) for member in producers]
        await self._completed(load.total(self.counts, self.workers, len(self.members)))
        elapsed = time.monotonic() - begun
        done = await self._collect()
        shares = [notes.cpu_seconds / elapsed for notes in (*done, *enqueued)]
        return _phase(enqueued, done, shares)

    async def _collect(self) -> list[load.Notes]:
        workers = self.members[: self.workers]
        for member in workers:
            member.pipe.send(load.Collect())
        return [await self._receive(member) for member in workers]

    async def _receive(self, member: Member) -> load.Notes:
        message = await load.receive(member.pipe)
        if isinstance(message, load.Notes):
            return message
        reason = message.reason if isinstance(message, load.Failed) else "it died"
        raise contestant.RoundFailedError(f"a process of the load generator failed: {reason}")

    async def _completed(self, expected: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (completed := sum(self.completed())) < expected:
            for member in self.members:
                if member.pipe.poll() or not member.process.is_alive():
                    await self._receive(member)
            if time.monotonic() > deadline:
                raise contestant.RoundFailedError(
                    f"{expected - completed} of {expected} jobs never completed"
                )
            await asyncio.sleep(_POLL_SECONDS)


def _phase(enqueued: list[load.Notes], completed: list[load.Notes], shares: list[float]) -> Phase:
    started: dict[contestant.JobId, float] = {}
    for notes in enqueued:
        started.update(zip(notes.ids, notes.moments, strict=True))
    pairs = [pair for notes in completed for pair in zip(notes.ids, notes.moments, strict=True)]
    if len(pairs) != len(started) or {job for job, _ in pairs} != started.keys():
        raise contestant.RoundFailedError(f"{len(pairs)} completions for {len(started)} jobs")
    last = max(moment for _, moment in pairs)
    return Phase(
        jobs=len(started),
        seconds=last - min(started.values()),
        latencies=[moment - started[job] for job, moment in pairs],
        cpu_shares=shares,
    )


def context() -> ForkServerContext:
    """Start processes from a clean server that has everything imported already."""
    chosen = multiprocessing.get_context("forkserver")
    chosen.set_forkserver_preload(["pagewarden.bench.queue.load", *peers.modules()])
    return chosen


@asynccontextmanager
async def assembled(
    name: str, url: str, *, batch: int, workers: int, producers: int
) -> AsyncIterator[Crew]:
    """Start the processes; they are gone when the block ends."""
    processes = context()
    counts = processes.RawArray("q", workers + producers)
    members = []
    try:
        for seat in range(workers + producers):
            assignment = load.Assignment(name, url, batch, seat, workers)
            members.append(_start(processes, assignment, counts))
        yield Crew(members, workers, counts)
        for member in members:
            member.pipe.send(None)
        for member in members:
            await asyncio.to_thread(member.process.join, _PATIENCE_SECONDS)
    finally:
        for member in members:
            member.process.kill()
            member.process.join()
            member.pipe.close()


def _start(
    processes: ForkServerContext, assignment: load.Assignment, counts: load.Counts
) -> Member:
    near, far = processes.Pipe()
    process = processes.Process(target=load.main, args=(assignment, far, counts), daemon=True)
    process.start()
    far.close()
    return Member(process, near)
