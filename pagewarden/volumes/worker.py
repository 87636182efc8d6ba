"""A worker: receives messages of its stages, and does one stage of one volume after the other."""

from __future__ import annotations

import collections
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors, waking
from pagewarden.database import answers
from pagewarden.volumes import messages, turns
from pagewarden.volumes import stages as stages_module

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from pagewarden.database import Database
    from pagewarden.volumes import queues

log = structlog.get_logger(__name__)

IDLE_SECONDS = 5.0
# After the first outage in a row, the second, … Not for long: what other volumes need may be there.
OUTAGE_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0)

Outcome = turns.Outcome
_DEALT_WITH = frozenset({Outcome.DONE, Outcome.FAILED, Outcome.OUTAGE, Outcome.STALE})
_ENDED = frozenset({Outcome.DONE, Outcome.FAILED})


@dataclass(frozen=True, slots=True)
class Worker:
    """Serves stages, the preferred one first; who wants volumes to end soon names the last first.

    find gives the stage of a name; it is asked when the first volume for it comes, so that a
    worker holds no more models than it needs.
    """

    database: Database
    queue: queues.StageQueue
    places: turns.Places
    worker_id: str
    stages: Sequence[str]
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = IDLE_SECONDS
    hints: waking.Hints = field(default_factory=waking.Hints)
    find: Callable[[str], stages_module.Stage] = stages_module.find

    async def run(self, stop: asyncio.Event) -> None:
        """Work until stop is set; then give back what is in hand, uncounted."""
        outages = 0
        with self.hints.bell(self.stages) as bell:
            while not stop.is_set():
                bell.clear()
                outcome = await self.serve(stop)
                if outcome is None:
                    await concurrency.wait(bell, stop, seconds=self.idle_seconds)
                elif outcome is Outcome.OUTAGE:
                    outages += 1
                    await concurrency.wait(stop, seconds=pause_after(outages))
                elif outcome in _ENDED:
                    outages = 0

    async def drain(self, stop: asyncio.Event) -> collections.Counter[Outcome]:
        """Work until nothing is left to do or stop is set; count how the turns ended."""
        outcomes: collections.Counter[Outcome] = collections.Counter()
        while not stop.is_set() and (outcome := await self.serve(stop)) is not None:
            outcomes[outcome] += 1
        return outcomes

    async def serve(self, stop: asyncio.Event) -> Outcome | None:
        """Deal with the next message, if there is one."""
        try:
            delivery = await self.queue.receive(self.stages, seconds=self.lock_seconds)
            if delivery is None:
                return None
            outcome = await self._deal_with(delivery, stop)
            if outcome in _DEALT_WITH:
                await self.queue.ack(delivery)
        except (errors.DatabaseError, errors.QueueError) as exc:
            # Others go on; the message shows again when nobody extends it.
            log.warning("turn_lost", worker=self.worker_id, error=str(exc))
            return None
        return outcome

    async def _deal_with(self, delivery: queues.Delivery, stop: asyncio.Event) -> Outcome:
        message = messages.Message.parse(delivery.body)
        if message is None:
            log.warning("message_unreadable", stage=delivery.stage, body=delivery.body)
            return Outcome.STALE
        answer = await self.database.start_volume_stage(
            task_id=message.task_id,
            stage=delivery.stage,
            attempt=message.attempt,
            worker_id=self.worker_id,
            lock_seconds=math.ceil(self.lock_seconds),
        )
        if answer["success"]:
            return await self._turn(turns.Grant.from_answer(answer), delivery, stop)
        if answer["error"] == "STAGE_HELD":
            await self.queue.extend(delivery, answers.require(answer["retry_after"]) + 1)
            return Outcome.HELD
        return Outcome.STALE

    async def _turn(
        self, grant: turns.Grant, delivery: queues.Delivery, stop: asyncio.Event
    ) -> Outcome:
        with structlog.contextvars.bound_contextvars(worker=self.worker_id):
            turn = turns.Turn(
                grant,
                delivery,
                self.database,
                self.queue,
                self.find,
                self.places,
                self.lock_seconds,
                self.heartbeat_seconds,
            )
            log.info("stage_begun", task=grant.task_id, stage=delivery.stage, volume=grant.volume)
            outcome = await turn.make(stop)
            log.info("stage_ended", task=grant.task_id, stage=delivery.stage, outcome=str(outcome))
            return outcome


def pause_after(outages: int) -> float:
    """Tell for how many seconds a worker leaves its queue alone after outages in a row."""
    return OUTAGE_SECONDS[min(outages, len(OUTAGE_SECONDS)) - 1]
