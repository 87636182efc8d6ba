"""A worker's turn at one stage of one volume, from the token to its end.

The process may be killed at any instruction. While it lives it sends heartbeats, and keeps the
message to itself; what it cannot finish it gives back. What the stage does is its own business.
"""

from __future__ import annotations

import asyncio
import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from pagewarden import errors
from pagewarden.database import answers, persistence
from pagewarden.volumes import config as configs
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pagewarden.database import Database, rows
    from pagewarden.volumes import artifacts, queues

log = structlog.get_logger(__name__)

# What this worker lacks, or was given wrongly, is no volume's fault: another one may have it.
_OF_THE_WORKER = (errors.EngineMissing, errors.KeyRefused, errors.SettingsError)
LONGEST_RETRY_SECONDS = 43_200


class Outcome(enum.StrEnum):
    """How a turn ended."""

    DONE = "done"
    FAILED = "failed"
    GIVEN_BACK = "given_back"
    OUTAGE = "outage"
    LOST = "lost"
    STALE = "stale"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Places:
    """Where images come from and artifacts go, and the model that was given to the stages."""

    input: artifacts.Bucket
    output: artifacts.Bucket
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A stage of a volume in our hands, and the token that proves it."""

    task_id: int
    token: str
    job_key: str
    w_id: str
    i_id: str
    config: Mapping[str, Any]
    is_forced: bool
    seconds_before: float
    stage_seconds: float

    @property
    def volume(self) -> str:
        """Name the volume as people do."""
        return f"{self.w_id}-{self.i_id}"

    @classmethod
    def from_answer(cls, answer: rows.StartVolumeStageAnswer) -> Grant:
        """Make it from what start_volume_stage answers."""
        return cls(
            task_id=answers.require(answer["task_id"]),
            token=answers.require(answer["token"]),
            job_key=answers.require(answer["job_key"]),
            w_id=answers.require(answer["bdrc_w_id"]),
            i_id=answers.require(answer["bdrc_i_id"]),
            config=answers.require(answer["config"]),
            is_forced=answers.require(answer["is_forced"]),
            seconds_before=answers.require(answer["seconds_before"]),
            stage_seconds=answers.require(answer["stage_seconds"]),
        )


@dataclass(slots=True)
class _Progress:
    """Pages done, and of how many, as the stage last said."""

    done: int | None = None
    total: int | None = None

    def say(self, done: int, total: int) -> None:
        """Take it down; the next heartbeat tells it."""
        self.done, self.total = done, total


@dataclass(frozen=True, slots=True)
class Turn:
    """One stage of one volume, and all that is needed to do it.

    Calls of the database are retried while it is away. They carry the token, so a call that is
    made twice does no harm: if the first one got through after all, the answer is LOCK_LOST.
    """

    grant: Grant
    delivery: queues.Delivery
    database: Database
    queue: queues.StageQueue
    find: Callable[[str], stages.Stage]
    places: Places
    lock_seconds: float
    heartbeat_seconds: float
    progress: _Progress = field(default_factory=_Progress, init=False)

    async def make(self, stop: asyncio.Event) -> Outcome:
        """Do the stage, side by side with its heartbeat and the order to stop.

        Whatever is wrong with the volume, or the stage, ends up in the database; what the
        database refuses is raised.
        """
        try:
            config = configs.Config.parse(self.grant.config)
        except errors.SettingsError as exc:
            return await self._fail(exc, errors.Category.PERMANENT)  # of the job, and for everybody
        doing = asyncio.create_task(self._do(config))
        heartbeat = asyncio.create_task(self._keep_alive())
        stopping = asyncio.create_task(stop.wait())
        tasks = {doing, heartbeat, stopping}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done() and heartbeat.done():
                heartbeat.result()
                log.warning("lock_lost", task=self.grant.task_id, stage=self.delivery.stage)
                return Outcome.LOST
            if not doing.done() and not await self._ends_when_told(doing):
                return await self._stop()
            error = doing.exception()
            return await (self._complete(doing.result()) if error is None else self._report(error))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ends_when_told(self, doing: asyncio.Task[stages.Done]) -> bool:
        """End the stage, which must not publish anything later; tell whether it was just done."""
        doing.cancel()
        await asyncio.wait({doing}, timeout=self.lock_seconds)
        return doing.done() and not doing.cancelled() and doing.exception() is None

    async def _do(self, config: configs.Config) -> stages.Done:
        grant = self.grant
        work = stages.Work(
            job_key=grant.job_key,
            w_id=grant.w_id,
            i_id=grant.i_id,
            config=config,
            input=self.places.input,
            output=self.places.output,
            token=grant.token,
            model=self.places.model,
            seconds_before=grant.seconds_before,
            force=grant.is_forced,
            progress=self.progress.say,
            may_publish=self._may_publish,
        )
        try:
            async with asyncio.timeout(grant.stage_seconds) as limit:
                return await self._stage().run(work)
        except TimeoutError as exc:
            if not limit.expired():
                raise
            raise errors.ReadingTimedOut(
                f"the stage did not end in {grant.stage_seconds:g} s; give the job more"
            ) from exc

    def _stage(self) -> stages.Stage:
        try:
            return self.find(self.delivery.stage)
        except ImportError as exc:
            raise errors.EngineMissing(
                f"the stage {self.delivery.stage} cannot be loaded: {exc}; install what it needs"
            ) from exc

    async def _may_publish(self) -> None:
        if not await self._beat():
            raise errors.LockLost(f"task {self.grant.task_id} is somebody else's by now")

    async def _keep_alive(self) -> None:
        """Send heartbeats; returns when the task is no longer ours."""
        while True:
            await asyncio.sleep(self.heartbeat_seconds)
            if not await self._beat():
                return
            try:
                await self.queue.extend(self.delivery, self.lock_seconds)
            except errors.PagewardenError as exc:
                # Others that get the message are told that the task is in our hands.
                log.warning("message_not_extended", task=self.grant.task_id, error=str(exc))

    async def _beat(self) -> bool:
        answer = await persistence.persist(
            self.database.extend_volume_lock,
            task_id=self.grant.task_id,
            token=self.grant.token,
            lock_seconds=math.ceil(self.lock_seconds),
            pages_done=self.progress.done,
            pages_total=self.progress.total,
        )
        return answer["success"]

    async def _complete(self, done: stages.Done) -> Outcome:
        answer = await persistence.persist(
            self.database.complete_volume_stage,
            task_id=self.grant.task_id,
            token=self.grant.token,
            pages=done.pages,
            failed_pages=done.failed_pages,
            skipped=done.skipped,
            metrics=dict(done.metrics),
        )
        return Outcome.DONE if answer["success"] else Outcome.LOST

    async def _report(self, error: BaseException) -> Outcome:
        """Tell the database why the stage ended."""
        if isinstance(error, errors.LockLost):
            return Outcome.LOST
        known = error if isinstance(error, errors.PagewardenError) else None
        if known and (known.outage or isinstance(known, _OF_THE_WORKER)):
            log.warning("stage_out", **self._named(), error=errors.in_words(known))
            return await self._give_back(errors.in_words(known), outage=True)
        return await self._fail(error, known.category if known else errors.Category.UNKNOWN)

    async def _fail(self, error: BaseException, category: errors.Category) -> Outcome:
        words = errors.in_words(error)
        log.warning("stage_failed", **self._named(), error=words)
        answer = await persistence.persist(
            self.database.fail_volume_stage,
            task_id=self.grant.task_id,
            token=self.grant.token,
            error={"type": type(error).__name__, "message": words},
            category=str(category),
            retry_after=_retry_after(error),
        )
        return Outcome.FAILED if answer["success"] else Outcome.LOST

    def _named(self) -> dict[str, object]:
        return {"task": self.grant.task_id, "stage": self.delivery.stage}

    async def _stop(self) -> Outcome:
        """Give the task back; where the database is away, its lock has to expire instead."""
        try:
            async with asyncio.timeout(self.lock_seconds):
                return await self._give_back("the worker stops", outage=False)
        except TimeoutError:
            return Outcome.LOST

    async def _give_back(self, reason: str, *, outage: bool) -> Outcome:
        answer = await persistence.persist(
            self.database.release_volume_stage,
            task_id=self.grant.task_id,
            token=self.grant.token,
            reason=reason,
            outage=outage,
        )
        if not answer["success"]:
            return Outcome.LOST
        if answer["is_counted"]:
            return Outcome.FAILED
        if outage:  # another message comes later
            return Outcome.OUTAGE
        await self.queue.extend(self.delivery, 0)
        return Outcome.GIVEN_BACK


def _retry_after(error: BaseException) -> int | None:
    wanted = error.retry_after if isinstance(error, errors.RateLimited) else None
    return None if wanted is None else min(math.ceil(max(wanted, 0)), LONGEST_RETRY_SECONDS)
