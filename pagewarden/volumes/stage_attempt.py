"""StageAttempt: run one stage of one volume under its lease; complete, fail or release it.

The process may be killed at any instruction: its lock expires, and its message becomes visible
again. Until then each heartbeat renews both.
"""

from __future__ import annotations

import asyncio
import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from pagewarden import errors, leases
from pagewarden.database import answers, retry
from pagewarden.volumes import config as configs
from pagewarden.volumes import stages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pagewarden.database import Database, rows
    from pagewarden.volumes import artifacts, queues

log = structlog.get_logger(__name__)

# Faults of this worker's installation, not of the volume; another worker may succeed.
_WORKER_ERRORS = (errors.EngineNotInstalled, errors.ApiKeyRejected, errors.SettingsError)
MAX_RETRY_SECONDS = 43_200


class Outcome(enum.StrEnum):
    """How a worker dealt with a message."""

    DONE = "done"
    FAILED = "failed"
    GIVEN_BACK = "given_back"
    OUTAGE = "outage"
    LOST = "lost"
    STALE = "stale"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class StageEnvironment:
    """The buckets of images and artifacts, and the model that the stages use."""

    input: artifacts.Bucket
    output: artifacts.Bucket
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class StageClaim:
    """A claimed stage of a volume, with the lock token."""

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
        """Return the name of the volume."""
        return f"{self.w_id}-{self.i_id}"

    @classmethod
    def from_answer(cls, answer: rows.StartVolumeStageAnswer) -> StageClaim:
        """Convert the answer of start_volume_stage."""
        return cls(
            task_id=answers.require_field(answer["task_id"]),
            token=answers.require_field(answer["token"]),
            job_key=answers.require_field(answer["job_key"]),
            w_id=answers.require_field(answer["bdrc_w_id"]),
            i_id=answers.require_field(answer["bdrc_i_id"]),
            config=answers.require_field(answer["config"]),
            is_forced=answers.require_field(answer["is_forced"]),
            seconds_before=answers.require_field(answer["seconds_before"]),
            stage_seconds=answers.require_field(answer["stage_seconds"]),
        )


@dataclass(slots=True)
class _Progress:
    """Pages done and their total, as last reported by the stage."""

    done: int | None = None
    total: int | None = None

    def update(self, done: int, total: int) -> None:
        """Record the progress; the next heartbeat saves it."""
        self.done, self.total = done, total


@dataclass(frozen=True, slots=True)
class StageLease:
    """The lease of a claimed stage, see `pagewarden.leases.Lease`; renewals save the progress.

    Database calls are retried while the database is away. They carry the lock token, so repeating
    one is harmless.
    """

    claim: StageClaim
    delivery: queues.Delivery
    database: Database
    queue: queues.StageQueue
    lock_seconds: float
    progress: _Progress = field(default_factory=_Progress, init=False)

    async def renew(self) -> None:
        """Renew the lock and the message."""
        await self.require_lock()
        try:
            await self.queue.set_visibility(self.delivery, self.lock_seconds)
        except errors.PagewardenError as exc:
            # Harmless: a worker that receives the message finds the task locked.
            log.warning("visibility_extension_failed", error=str(exc))

    async def require_lock(self) -> None:
        """Renew the lock; raise LockLost if another worker holds the task."""
        answer = await retry.retry_until_available(
            self.database.extend_volume_lock,
            task_id=self.claim.task_id,
            token=self.claim.token,
            lock_seconds=math.ceil(self.lock_seconds),
            pages_done=self.progress.done,
            pages_total=self.progress.total,
        )
        self._require(success=answer["success"])

    async def complete(self, result: stages.StageResult) -> Outcome:
        """Store the result, which moves the volume to its next stage."""
        answer = await retry.retry_until_available(
            self.database.complete_volume_stage,
            task_id=self.claim.task_id,
            token=self.claim.token,
            pages=result.pages,
            failed_pages=result.failed_pages,
            skipped=result.skipped,
            metrics=dict(result.metrics),
        )
        self._require(success=answer["success"])
        return Outcome.DONE

    async def fail(self, failure: leases.Failure) -> Outcome:
        """Store why the stage failed."""
        log.warning("stage_failed", error=failure.message)
        answer = await retry.retry_until_available(
            self.database.fail_volume_stage,
            task_id=self.claim.task_id,
            token=self.claim.token,
            error={"type": failure.type, "message": failure.message},
            category=str(failure.category),
            retry_after=failure.retry_after(MAX_RETRY_SECONDS),
        )
        self._require(success=answer["success"])
        return Outcome.FAILED

    async def release(self, reason: str, *, outage: bool) -> Outcome:
        """Give the volume back, with its message unless it is an outage."""
        answer = await retry.retry_until_available(
            self.database.release_volume_stage,
            task_id=self.claim.task_id,
            token=self.claim.token,
            reason=reason,
            outage=outage,
        )
        self._require(success=answer["success"])
        if answer["is_counted"]:
            return Outcome.FAILED
        if outage:  # a later retry gets a new message
            return Outcome.OUTAGE
        await self.queue.set_visibility(self.delivery, 0)
        return Outcome.GIVEN_BACK

    def is_outage(self, failure: leases.Failure) -> bool:
        """Tell whether it is an outage; a fault of this worker's installation is one too."""
        outage = failure.is_outage or isinstance(failure.error, _WORKER_ERRORS)
        if outage:
            log.warning("stage_outage", error=failure.message)
        return outage

    def log_loss(self) -> None:
        """Log the lost lock."""
        log.warning("lock_lost")

    @property
    def lost_outcome(self) -> Outcome:
        """Return the outcome of a lost lock."""
        return Outcome.LOST

    def _require(self, *, success: bool) -> None:
        if not success:
            raise errors.LockLost(f"another worker now holds task {self.claim.task_id}")


@dataclass(frozen=True, slots=True)
class StageAttempt:
    """One attempt at one stage of one volume."""

    lease: StageLease
    load_stage: Callable[[str], stages.Stage]
    environment: StageEnvironment
    heartbeat_seconds: float

    async def run(self, stop: asyncio.Event) -> Outcome:
        """Run the stage while sending heartbeats; release the volume if `stop` is set.

        Errors of the volume or the stage are stored in the database; only errors of the database
        and of the queue are raised.
        """
        runner = leases.LeaseRunner(
            self.lease,
            self._run,
            self._complete,
            heartbeat_seconds=self.heartbeat_seconds,
            cancel_seconds=self.lease.lock_seconds,
            stop_seconds=self.lease.lock_seconds,
        )
        return await runner.run(stop)

    async def _run(self) -> stages.StageResult | leases.Failure:
        try:
            config = configs.VolumeConfig.parse(self.lease.claim.config)
        except errors.SettingsError as exc:
            # The job's fault and not the worker's: all workers get the same config.
            return leases.Failure(exc, errors.Category.PERMANENT)
        return await self._run_stage(config)

    async def _complete(self, result: stages.StageResult | leases.Failure) -> Outcome:
        if isinstance(result, leases.Failure):
            return await self.lease.fail(result)
        return await self.lease.complete(result)

    async def _run_stage(self, config: configs.VolumeConfig) -> stages.StageResult:
        claim = self.lease.claim
        stage_input = stages.StageInput(
            job_key=claim.job_key,
            w_id=claim.w_id,
            i_id=claim.i_id,
            config=config,
            input=self.environment.input,
            output=self.environment.output,
            token=claim.token,
            model=self.environment.model,
            seconds_before=claim.seconds_before,
            force=claim.is_forced,
            progress=self.lease.progress.update,
            may_publish=self.lease.require_lock,
        )
        try:
            async with asyncio.timeout(claim.stage_seconds) as limit:
                return await self._load_stage().run(stage_input)
        except TimeoutError as exc:
            if not limit.expired():
                raise
            raise errors.ReadingTimedOut(
                f"the stage did not finish within {claim.stage_seconds:g} s; create the job with a "
                "longer limit"
            ) from exc

    def _load_stage(self) -> stages.Stage:
        name = self.lease.delivery.stage
        try:
            return self.load_stage(name)
        except ImportError as exc:
            raise errors.EngineNotInstalled(
                f"cannot load stage {name}: {exc}; install the missing package"
            ) from exc
