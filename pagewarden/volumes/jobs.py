"""Volume jobs: create, list, re-run and cancel them; which config keys a re-run may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.database import answers, tables
from pagewarden.ocr import languages
from pagewarden.volumes import config as configs
from pagewarden.volumes.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pagewarden.database import Database
    from pagewarden.database.rows import (
        CancelVolumeJobAnswer,
        CreateVolumeJobAnswer,
        ListedVolumeJob,
        ListedVolumeTask,
        RerunVolumesAnswer,
        VolumeBoardAnswer,
        VolumeInProgress,
        VolumeRuns,
    )

_PAGE_SIZE = 200
# Limits the pairs of work and group that one query can match, so that they fit into one answer.
_NAMES_PER_QUERY = 20

_STATUSES = ("pending", "running", "done", "failed")
_ORDERING_STAGE = "line_extraction"
"""The stage that sorts lines into reading order."""


@dataclass(frozen=True, slots=True)
class VolumeName:
    """The name of a volume: an image group (i_id) of a work (w_id)."""

    w_id: str
    i_id: str

    def __str__(self) -> str:
        return f"{self.w_id}-{self.i_id}"

    @classmethod
    def parse(cls, text: str) -> VolumeName:
        """Parse a name such as W22084-I0886."""
        w_id, _, i_id = text.rpartition("-")
        if not w_id or not i_id:
            raise errors.SettingsError(
                f"{text!r} is not a volume; expected a work and an image group, such as "
                "W22084-I0886"
            )
        return cls(w_id, i_id)


@dataclass(frozen=True, slots=True)
class CreatedJob:
    """A job that was created."""

    job_id: int
    job_key: str
    volumes: int


@dataclass(frozen=True, slots=True)
class StageCount:
    """Volumes of a job in a stage: waiting, being processed, past it, failed in it.

    seconds, pages: total of its most recent attempts, whose number is attempts.
    """

    stage: str
    waiting: int
    in_hand: int
    passed: int
    failed: int
    attempts: int
    pages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class JobBoard:
    """The state of a job: its volumes by stage, those being processed, and outages."""

    job_id: int
    job_key: str
    status: str
    volumes: int
    done: int
    failed: int
    stages: Sequence[StageCount]
    in_hand: Sequence[VolumeInProgress]
    outage: str | None
    passed_at: str | None

    @classmethod
    def from_answer(cls, answer: VolumeBoardAnswer) -> JobBoard:
        """Convert the answer of volume_board."""
        counts = count_by_stage(answer)
        return cls(
            job_id=answers.require_field(answer["job_id"]),
            job_key=answers.require_field(answer["job_key"]),
            status=answers.require_field(answer["status"]),
            volumes=sum(counts.values()),
            done=counts.get(("done", "done"), 0),
            failed=sum(count for (_, status), count in counts.items() if status == "failed"),
            stages=[_count_stage(stage, counts, answer) for stage in STAGES],
            in_hand=answers.require_field(answer["in_hand"]),
            outage=(answer["outage"] or {}).get("message"),
            passed_at=answers.require_field(answer["orchestrator"])["passed_at"],
        )


def count_by_stage(answer: VolumeBoardAnswer) -> dict[tuple[str, str], int]:
    """Count the volumes of a job by stage and status."""
    counts = answers.require_field(answer["stages"])
    return {(row["stage"], row["status"]): row["volumes"] for row in counts}


def _count_stage(
    stage: str, counts: Mapping[tuple[str, str], int], answer: VolumeBoardAnswer
) -> StageCount:
    order = ("pending", *STAGES, "done")
    number = order.index(stage)
    before = order[number - 1]
    in_hand = answer["in_hand_by_stage"].get(stage, 0)
    published = counts.get((stage, "running"), 0)
    ready = counts.get((before, "done"), 0) + counts.get((before, "pending"), 0)
    passed = sum(
        counts.get((later, status), 0) for later in order[number + 1 :] for status in _STATUSES
    )
    timing = answer["timing"].get(stage, {})
    return StageCount(
        stage,
        waiting=published - in_hand + ready,
        in_hand=in_hand,
        passed=passed + counts.get((stage, "done"), 0),
        failed=counts.get((stage, "failed"), 0),
        attempts=timing.get("volumes") or 0,
        pages=timing.get("pages") or 0,
        seconds=timing.get("seconds") or 0.0,
    )


@dataclass(frozen=True, slots=True)
class JobRepository:
    """The jobs that this database connection may see."""

    database: Database

    async def create(
        self,
        volumes: Iterable[VolumeName],
        *,
        job_key: str | None = None,
        config: Mapping[str, Any] | None = None,
        max_attempts: int = 3,
        stage_seconds: int = 21_600,
    ) -> CreatedJob:
        """Create a job of these volumes; the config is checked first."""
        configs.VolumeConfig.parse(config or {})
        answer = await self.database.create_volume_job(
            volumes=[{"bdrc_w_id": v.w_id, "bdrc_i_id": v.i_id} for v in volumes],
            job_key=job_key,
            config=dict(config or {}),
            max_attempts=max_attempts,
            stage_seconds=stage_seconds,
        )
        _require_success(answer, hint="choose another key; on the command line, with --key")
        return CreatedJob(
            answers.require_field(answer["job_id"]),
            answer["job_key"],
            answers.require_field(answer["volumes"]),
        )

    async def find(self, job: str) -> int:
        """Find a job by its key or id; return its id."""
        for column in ("job_key", "id") if job.isdecimal() else ("job_key",):
            rows = await self.database.select(tables.volume_jobs, columns="id", where={column: job})
            if rows:
                return int(rows[0]["id"])
        raise errors.InvalidArgument(
            f"there is no job {job}", hint="see `pagewarden volumes status`"
        )

    async def get_board(self, job_id: int) -> JobBoard:
        """Return the state of a job."""
        answer = await self.database.volume_board(job_id=job_id)
        _require_success(answer)
        return JobBoard.from_answer(answer)

    async def list_jobs(self, *, limit: int = 50) -> list[ListedVolumeJob]:
        """List the newest jobs."""
        return await self.database.list_volume_jobs(limit=limit)

    async def list_tasks(
        self, job_id: int, *, stage: str | None = None, status: str | None = None
    ) -> list[ListedVolumeTask]:
        """List all volumes of a job, or those of a stage or status, failed ones first.

        The list is read in pages ordered by id, so no volume is missed while they change stage.
        """
        found: list[ListedVolumeTask] = []
        while True:
            page = await self.database.list_volume_tasks(
                job_id=job_id,
                stage=stage,
                status=status,
                after_id=found[-1]["task_id"] if found else None,
                limit=_PAGE_SIZE,
                by_id=True,
            )
            found += page
            if len(page) < _PAGE_SIZE:
                return sorted(found, key=lambda row: (row["rank"], row["task_id"]))

    async def list_attempts(self, job_id: int, volume: VolumeName) -> list[VolumeRuns]:
        """List the most recent attempts at a volume, newest first."""
        (task_id,) = await self._find_task_ids(job_id, [volume])
        return await self.database.volume_history(task_id=task_id, limit=_PAGE_SIZE)

    async def get_config(self, job_id: int) -> dict[str, Any]:
        """Return the config of a job, with the changes made by re-runs."""
        (row,) = await self.database.select(
            tables.volume_jobs, columns="config", where={"id": job_id}
        )
        config: dict[str, Any] = row["config"]
        return config

    async def rerun(
        self,
        job_id: int,
        stage: str | None,
        *,
        volumes: Sequence[VolumeName] = (),
        only_failed: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> tuple[int, int]:
        """Run a stage again, or the one that failed; return how many volumes run and are skipped.

        The config belongs to the whole job, so it may change only if no other volume is running.
        """
        if config:
            old = await self.get_config(job_id)
            require_valid_changes(stage or STAGES[0], old, config)
            await self._require_no_others_running(job_id, volumes, only_failed=only_failed)
        answer = await self.database.rerun_volumes(
            job_id=job_id,
            stage=stage,
            task_ids=await self._find_task_ids(job_id, volumes) if volumes else None,
            only_failed=only_failed,
            config=dict(config) if config else None,
        )
        _require_success(answer)
        return answers.require_field(answer["rerun"]), answers.require_field(answer["skipped"])

    async def cancel(self, job_id: int, reason: str | None = None) -> int:
        """Cancel a job; return how many volumes were taken from queues and workers."""
        answer = await self.database.cancel_volume_job(job_id=job_id, reason=reason)
        _require_success(answer)
        return answers.require_field(answer["taken_back"])

    async def _require_no_others_running(
        self, job_id: int, volumes: Sequence[VolumeName], *, only_failed: bool
    ) -> None:
        """Raise InvalidArgument if volumes that are not part of a re-run have not ended."""
        if not volumes and not only_failed:
            return
        others = 0
        for row in await self.list_tasks(job_id):
            is_part = not volumes or VolumeName(row["bdrc_w_id"], row["bdrc_i_id"]) in volumes
            is_part = is_part and (row["status"] == "failed" or not only_failed)
            others += not is_part and not _has_ended(row)
        if others:
            raise errors.InvalidArgument(
                f"the config applies to the whole job, and {others:,} other volumes are still "
                "running",
                hint="wait for them, or create a new job for these volumes",
            )

    async def _find_task_ids(self, job_id: int, volumes: Sequence[VolumeName]) -> list[int]:
        known: dict[VolumeName, int] = {}
        for start in range(0, len(volumes), _NAMES_PER_QUERY):
            known |= await self._find_tasks(job_id, volumes[start : start + _NAMES_PER_QUERY])
        missing = [str(name) for name in volumes if name not in known]
        if missing:
            raise errors.InvalidArgument(f"the job has no volume {', '.join(missing)}")
        return [known[name] for name in volumes]

    async def _find_tasks(
        self, job_id: int, volumes: Sequence[VolumeName]
    ) -> dict[VolumeName, int]:
        """Find the task ids of volumes, without those that the job does not have."""
        rows = await self.database.select(
            tables.volumes,
            columns="id,bdrc_w_id,bdrc_i_id",
            where={
                "bdrc_w_id": sorted({name.w_id for name in volumes}),
                "bdrc_i_id": sorted({name.i_id for name in volumes}),
            },
        )
        names = {row["id"]: VolumeName(row["bdrc_w_id"], row["bdrc_i_id"]) for row in rows}
        if not names:
            return {}
        tasks = await self.database.select(
            tables.volume_tasks,
            columns="id,volume_id",
            where={"job_id": job_id, "volume_id": sorted(names)},
        )
        return {names[task["volume_id"]]: task["id"] for task in tasks}


def _has_ended(task: ListedVolumeTask) -> bool:
    if task["status"] == "failed":
        return task["attempts"] >= task["max_attempts"]
    return task["stage"] == "done"


def _require_success(
    answer: CreateVolumeJobAnswer | CancelVolumeJobAnswer | RerunVolumesAnswer | VolumeBoardAnswer,
    hint: str | None = None,
) -> None:
    if not answer["success"]:
        raise errors.InvalidArgument(answers.require_field(answer["message"]), hint=hint)


def require_valid_changes(stage: str, old: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    """Raise SettingsError for an invalid config, or changes that a re-run of `stage` ignores.

    None resets a key to its default.
    """
    merged = {key: value for key, value in {**old, **changes}.items() if value is not None}
    new = configs.VolumeConfig.parse(merged)
    for key in changes:
        users = [name for name in STAGES if key in configs.STAGE_KEYS[name]]
        if users and _is_before(users[-1], stage):
            raise _make_ignored_change_error(key, stage, users[-1])
    before = configs.VolumeConfig.parse(old)
    if _is_before(_ORDERING_STAGE, stage) and _is_rtl(new) != _is_rtl(before):
        raise _make_ignored_change_error("the text direction", stage, _ORDERING_STAGE)


def _is_rtl(config: configs.VolumeConfig) -> bool:
    return languages.is_right_to_left(config.languages)


def _is_before(stage: str, other_stage: str) -> bool:
    return STAGES.index(stage) < STAGES.index(other_stage)


def _make_ignored_change_error(change: str, stage: str, owning_stage: str) -> errors.SettingsError:
    return errors.SettingsError(
        f"{change} would have no effect: only {owning_stage} uses it, but the rerun starts at "
        f"{stage}. Rerun from {owning_stage} instead"
    )
