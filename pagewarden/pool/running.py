"""A program's part of the pool: its workers, what they are told, and a manager that may lead."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden.documents import worker as workers
from pagewarden.local import scheduler
from pagewarden.pool import board, capacity, manager
from pagewarden.pool.worker import PoolWorker

if TYPE_CHECKING:
    from pagewarden import waking
    from pagewarden.database import Database
    from pagewarden.documents import claims
    from pagewarden.pool.plans import Plan


SWEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Program:
    """What the workers of a program share; process names it among the programs of the pool."""

    database: Database
    reader: claims.Reader
    hints: waking.Hints
    process: str
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = workers.IDLE_SECONDS

    async def run(self, plan: Plan, stop: asyncio.Event) -> None:
        """Work until stop is set, then give back what is in hand and take leave."""
        told = board.Board(self.database, self.process, plan.minimums_of(plan.size))
        crew = self._crew(plan, told)
        await told.report()
        leading = manager.Manager(self.database, self.process, plan)
        seconds = min(board.REPORT_SECONDS, plan.interval_seconds / 4)
        # What dead workers held is read again also where no scheduler runs.
        sweeping = scheduler.sweep(self.database, stop, seconds=SWEEP_SECONDS)
        beside = [
            asyncio.create_task(work)
            for work in (leading.run(stop), told.run(stop, seconds=seconds), sweeping)
        ]
        try:
            await workers.side_by_side(crew, stop)
        finally:
            stop.set()
            await asyncio.gather(*beside, return_exceptions=True)
            await told.leave()

    def _crew(self, plan: Plan, told: board.Board) -> list[PoolWorker]:
        room = capacity.Capacity(plan.cpu, plan.megabytes, freed=self.hints.ring)
        crew = []
        for number in range(1, plan.count + 1):
            name = f"{self.process}-{number}"
            told.posts[name] = board.Post()
            crew.append(self._worker(name, plan, told, room))
        return crew

    def _worker(
        self, name: str, plan: Plan, told: board.Board, room: capacity.Capacity
    ) -> PoolWorker:
        return PoolWorker(
            self.database,
            self.reader,
            worker_id=name,
            lanes=plan.lanes,
            lock_seconds=self.lock_seconds,
            heartbeat_seconds=self.heartbeat_seconds,
            idle_seconds=self.idle_seconds,
            hints=self.hints,
            post=told.posts[name],
            told=told,
            room=room,
        )
