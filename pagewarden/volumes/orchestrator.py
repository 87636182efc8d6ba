"""Orchestrator: move volumes from stage to stage; send the outbox.

The database moves a volume and publishes the message for the next stage in one transaction, and
lets only one orchestrator do so at a time. So several may run, and none is a single point of
failure. Messages for queues outside the database go through an outbox: they are sent after the
commit.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors
from pagewarden.database.listener import Listener
from pagewarden.volumes import stages
from pagewarden.volumes.queues import base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database, rows
    from pagewarden.volumes import queues

log = structlog.get_logger(__name__)

CHANNEL = "orchestrator"
SWEEP_SECONDS = 30.0
# Pause while another orchestrator runs; it may have missed the change that woke this one.
BUSY_SECONDS = 0.5
# A queue counts its messages only approximately, so an empty one may not show newer messages yet.
RECENT_SECONDS = 300
MAX_RETENTION_SECONDS = 1_209_600
# Messages that are not settled in time are sent again; SQS drops the duplicates.
LEASE_SECONDS = 30
_BATCH_SIZE = 100
_MAX_CONCURRENT_SENDS = 10


async def send_outbox(database: Database, publisher: queues.Publisher) -> int:
    """Send all messages in the outbox; return their number, or raise the error of a queue.

    A queue that fails does not delay messages for other queues.
    """
    sent, failures = 0, dict[str, errors.QueueError]()
    while True:
        unsent = await database.claim_volume_outbox(limit=_BATCH_SIZE, lease_seconds=LEASE_SECONDS)
        if not unsent:
            break
        sent += await _send_messages(database, publisher, unsent, failures)
    for failure in failures.values():
        raise failure
    return sent


async def _send_messages(
    database: Database,
    publisher: queues.Publisher,
    messages: list[rows.VolumeOutboxMessage],
    failures: dict[str, errors.QueueError],
) -> int:
    """Send messages to queues without failures; other messages stay in the outbox."""
    slots = asyncio.Semaphore(_MAX_CONCURRENT_SENDS)
    sent: list[base.StageMessage] = []

    async def send(row: rows.VolumeOutboxMessage) -> None:
        message = base.StageMessage.parse(row["message"])
        assert message is not None  # noqa: S101  # the database made it
        async with slots:
            if row["stage"] in failures:
                return
            try:
                await publisher.publish(row["stage"], message)
            except errors.QueueError as exc:
                failures[row["stage"]] = exc
            else:
                sent.append(message)

    await asyncio.gather(*map(send, messages))
    await database.settle_volume_outbox(
        messages=[{"task_id": m.task_id, "attempt": m.attempt} for m in sent]
    )
    return len(sent)


async def republish_lost_messages(database: Database, publisher: queues.Publisher) -> int:
    """Put messages that their queue has lost into the outbox again; return their number.

    An empty queue has lost all messages but the most recent: it was purged, or moved them to its
    dead-letter queue. Any other queue has lost those older than its retention period. If an old
    message does arrive after all, workers discard it as stale.
    """
    lost = 0
    for stage in stages.STAGES:
        try:
            is_empty = await publisher.is_empty(stage)
            min_age = RECENT_SECONDS if is_empty else await publisher.get_retention_seconds(stage)
        except errors.QueueError as exc:
            log.warning("queue_check_failed", stage=stage, error=str(exc))
            continue
        lost += await database.republish_volumes(
            stage=stage, older_seconds=min(min_age, MAX_RETENTION_SECONDS)
        )
    if lost:
        log.warning("messages_lost", volumes=lost)
    return lost


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step of the orchestrator found and did.

    is_busy: there are running jobs. retry_in: seconds until a failed volume may be retried.
    """

    published: int
    rescued: int
    completed: int
    failed: int
    is_busy: bool
    retry_in: float | None
    sent: int = 0

    @classmethod
    def from_answers(
        cls, answers: Sequence[rows.OrchestrateVolumesAnswer], *, sent: int
    ) -> StepResult:
        """Sum up the answers of consecutive calls of orchestrate_volumes."""
        return cls(
            published=sum(a["published"] + a["republished"] for a in answers),
            rescued=sum(a["rescued"] for a in answers),
            completed=sum(a["completed"] for a in answers),
            failed=sum(a["failed"] for a in answers),
            is_busy=answers[-1]["is_busy"],
            retry_in=answers[-1]["retry_in"],
            sent=sent,
        )


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """Moves volumes from stage to stage whenever one changes, and every `sweep_seconds`.

    Without a publisher the queues are those in the database. `busy` is on while jobs are running.
    """

    database: Database
    process: str
    publisher: queues.Publisher | None = None
    listener: Listener = field(default_factory=Listener)
    sweep_seconds: float = SWEEP_SECONDS
    busy: concurrency.Toggle = field(default_factory=concurrency.Toggle)

    async def run(self, stop: asyncio.Event) -> None:
        """Run steps until `stop` is set; errors of database and queues are only logged."""
        with self.listener.subscribe([CHANNEL]) as wake_up:
            while not stop.is_set():
                wake_up.clear()
                pause = await self._run_step()
                await concurrency.wait(wake_up, stop, seconds=pause)

    async def step(self) -> StepResult | None:
        """Move all volumes that are ready; return None if another orchestrator is running."""
        answers: list[rows.OrchestrateVolumesAnswer] = []
        while not answers or answers[-1]["is_more"]:
            found = await self.database.orchestrate_volumes(
                queue="pgmq" if self.publisher is None else "sqs", process=self.process
            )
            if not found:
                return None
            answers += found
        sent = await self._send(is_reconciling=any(a["is_reconciling"] for a in answers))
        result = StepResult.from_answers(answers, sent=sent)
        self.busy.set_state(is_on=result.is_busy)
        if result.published or result.rescued or result.completed or result.failed:
            log.info(
                "orchestrator_step_completed",
                published=result.published,
                rescued=result.rescued,
                jobs_completed=result.completed,
                jobs_failed=result.failed,
            )
        return result

    async def _send(self, *, is_reconciling: bool) -> int:
        """Send messages to queues outside the database, which fills its own queues itself."""
        if self.publisher is None:
            return 0
        if is_reconciling:
            await republish_lost_messages(self.database, self.publisher)
        return await send_outbox(self.database, self.publisher)

    async def _run_step(self) -> float:
        """Run one step; return the seconds until the next, unless a notification arrives first."""
        try:
            result = await self.step()
        except (errors.DatabaseError, errors.QueueError) as exc:
            log.warning("orchestrator_step_failed", error=str(exc))
            return self.sweep_seconds
        if result is None:
            return BUSY_SECONDS
        if result.retry_in is None:
            return self.sweep_seconds
        return min(max(result.retry_in, BUSY_SECONDS), self.sweep_seconds)
