"""StageWorker: receive messages of its stages, and run one stage of one volume at a time."""

from __future__ import annotations

import collections
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.database import answers
from pagewarden.database.listener import Listener
from pagewarden.volumes import stage_attempt
from pagewarden.volumes import stages as stages_module
from pagewarden.volumes.queues import base

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from pagewarden.database import Database
    from pagewarden.volumes import queues

log = structlog.get_logger(__name__)

IDLE_SECONDS = 5.0
# Pauses after consecutive outages; short, because other volumes may not be affected.
OUTAGE_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0)

Outcome = stage_attempt.Outcome
_ACKNOWLEDGED = frozenset({Outcome.DONE, Outcome.FAILED, Outcome.OUTAGE, Outcome.STALE})
_ENDED = frozenset({Outcome.DONE, Outcome.FAILED})


@dataclass(frozen=True, slots=True)
class StageWorker:
    """Runs stages, in order of preference: with the last first, volumes complete soonest.

    load_stage returns a stage by its name. It is called with the first volume for the stage, so
    that a worker loads only the models it needs.
    """

    database: Database
    queue: queues.StageQueue
    environment: stage_attempt.StageEnvironment
    worker_id: str
    stages: Sequence[str]
    lock_seconds: float
    heartbeat_seconds: float
    idle_seconds: float = IDLE_SECONDS
    listener: Listener = field(default_factory=Listener)
    load_stage: Callable[[str], stages_module.Stage] = stages_module.load

    async def run(self, stop: asyncio.Event) -> None:
        """Process volumes until `stop` is set; then release the current one, uncounted."""
        outages = 0
        with self.listener.subscribe(self.stages) as wake_up:
            while not stop.is_set():
                wake_up.clear()
                outcome = await self.process_next(stop)
                if outcome is None:
                    await concurrency.wait(wake_up, stop, seconds=self.idle_seconds)
                elif outcome is Outcome.OUTAGE:
                    outages += 1
                    await concurrency.wait(stop, seconds=get_outage_pause(outages))
                elif outcome in _ENDED:
                    outages = 0

    async def drain(self, stop: asyncio.Event) -> collections.Counter[Outcome]:
        """Process volumes until no message is left or `stop` is set; count the outcomes."""
        outcomes: collections.Counter[Outcome] = collections.Counter()
        while not stop.is_set() and (outcome := await self.process_next(stop)) is not None:
            outcomes[outcome] += 1
        return outcomes

    async def process_next(self, stop: asyncio.Event) -> Outcome | None:
        """Process the next message; return None if there is none."""
        try:
            delivery = await self.queue.receive(self.stages, seconds=self.lock_seconds)
            if delivery is None:
                return None
            outcome = await self._process(delivery, stop)
            if outcome in _ACKNOWLEDGED:
                await self.queue.ack(delivery)
        except (errors.DatabaseError, errors.QueueError) as exc:
            # The message becomes visible again when its visibility timeout ends.
            log.warning("attempt_lost", worker=self.worker_id, error=str(exc))
            return None
        return outcome

    async def _process(self, delivery: queues.Delivery, stop: asyncio.Event) -> Outcome:
        message = base.StageMessage.parse(delivery.body)
        if message is None:
            log.warning("invalid_message_discarded", stage=delivery.stage, body=delivery.body)
            return Outcome.STALE
        answer = await self.database.start_volume_stage(
            task_id=message.task_id,
            stage=delivery.stage,
            attempt=message.attempt,
            worker_id=self.worker_id,
            lock_seconds=math.ceil(self.lock_seconds),
        )
        if answer["success"]:
            claim = stage_attempt.StageClaim.from_answer(answer)
            return await self._run_attempt(claim, delivery, stop)
        if answer["error"] == "STAGE_HELD":
            await self.queue.set_visibility(
                delivery, answers.require_field(answer["retry_after"]) + 1
            )
            return Outcome.HELD
        return Outcome.STALE

    async def _run_attempt(
        self, claim: stage_attempt.StageClaim, delivery: queues.Delivery, stop: asyncio.Event
    ) -> Outcome:
        with structlog.contextvars.bound_contextvars(
            worker=self.worker_id,
            job=claim.job_key,
            volume=claim.volume,
            task=claim.task_id,
            stage=delivery.stage,
        ):
            lease = stage_attempt.StageLease(
                claim, delivery, self.database, self.queue, self.lock_seconds
            )
            attempt = stage_attempt.StageAttempt(
                lease, self.load_stage, self.environment, self.heartbeat_seconds
            )
            log.info("stage_started")
            outcome = await attempt.run(stop)
            log.info("stage_ended", outcome=str(outcome))
            return outcome


def get_outage_pause(outages: int) -> float:
    """Return the pause in seconds after a number of consecutive outages."""
    return OUTAGE_SECONDS[min(outages, len(OUTAGE_SECONDS)) - 1]
