"""The orchestrator: has the database move volumes from stage to stage.

What comes next, and its message, are one transaction of the database, which only one orchestrator
at a time makes. So any number of them may run, and the death of one costs nothing. For queues
outside of the database the message is in an outbox then, from which it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from pagewarden import concurrency, errors, waking
from pagewarden.volumes import outbox

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from pagewarden.database import Database, rows
    from pagewarden.volumes import queues

log = structlog.get_logger(__name__)

HINT = "orchestrator"
SWEEP_SECONDS = 30.0
# While another one is at it, which may not have seen any more what we were called for.
BUSY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look over all volumes found and did.

    is_busy: there are jobs that run. retry_in: seconds until a failed volume may try again.
    """

    published: int
    rescued: int
    completed: int
    failed: int
    is_busy: bool
    retry_in: float | None
    sent: int = 0

    @classmethod
    def from_answers(cls, answers: Sequence[rows.OrchestrateVolumesAnswer], *, sent: int) -> Seen:
        """Sum up what orchestrate_volumes answered, one call after the other."""
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
    """Looks over all volumes when something happened, and every so many seconds.

    Without a publisher the queues are those of the database. busy is on while there are jobs.
    """

    database: Database
    process: str
    publisher: queues.Publisher | None = None
    hints: waking.Hints = field(default_factory=waking.Hints)
    sweep_seconds: float = SWEEP_SECONDS
    busy: concurrency.Toggle = field(default_factory=concurrency.Toggle)

    async def run(self, stop: asyncio.Event) -> None:
        """Look again and again, until stop is set; no trouble ends this."""
        with self.hints.bell([HINT]) as bell:
            while not stop.is_set():
                bell.clear()
                pause = await self._turn()
                await concurrency.wait(bell, stop, seconds=pause)

    async def look(self) -> Seen | None:
        """Look over all volumes, and do what there is to do; None while another is at it."""
        answers: list[rows.OrchestrateVolumesAnswer] = []
        while not answers or answers[-1]["is_more"]:
            found = await self.database.orchestrate_volumes(
                queue="pgmq" if self.publisher is None else "sqs", process=self.process
            )
            if not found:
                return None
            answers += found
        sent = await self._send(is_reconciling=any(a["is_reconciling"] for a in answers))
        seen = Seen.from_answers(answers, sent=sent)
        self.busy.turn(on=seen.is_busy)
        if seen.published or seen.rescued or seen.completed or seen.failed:
            log.info(
                "volumes_moved",
                published=seen.published,
                rescued=seen.rescued,
                jobs_completed=seen.completed,
                jobs_failed=seen.failed,
            )
        return seen

    async def _send(self, *, is_reconciling: bool) -> int:
        """Send messages to queues outside of the database, which sees its own ones itself."""
        if self.publisher is None:
            return 0
        if is_reconciling:
            await outbox.reconcile(self.database, self.publisher)
        return await outbox.drain(self.database, self.publisher)

    async def _turn(self) -> float:
        """Look once; tell for how many seconds that will do, unless something happens."""
        try:
            seen = await self.look()
        except (errors.DatabaseError, errors.QueueError) as exc:
            log.warning("volumes_not_seen", error=str(exc))
            return self.sweep_seconds
        if seen is None:
            return BUSY_SECONDS
        if seen.retry_in is None:
            return self.sweep_seconds
        return min(max(seen.retry_in, BUSY_SECONDS), self.sweep_seconds)
