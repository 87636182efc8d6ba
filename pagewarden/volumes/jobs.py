"""Jobs: volumes are ordered, looked at, cancelled, and have a stage done again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.database import tables
from pagewarden.volumes import changes, stages
from pagewarden.volumes import config as configs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pagewarden.database import Database

_PAGE = 200
# Some works and some groups at a time: what all pairs of them could find fits into one answer.
_NAMES = 20


@dataclass(frozen=True, slots=True)
class Name:
    """What a volume is called: an image group (i_id) of a work (w_id)."""

    w_id: str
    i_id: str

    def __str__(self) -> str:
        return f"{self.w_id}-{self.i_id}"

    @classmethod
    def parse(cls, text: str) -> Name:
        """Read W22084-I0886."""
        w_id, _, i_id = text.rpartition("-")
        if not w_id or not i_id:
            raise errors.SettingsError(
                f"{text!r} is no volume; write work and image group, as in W22084-I0886"
            )
        return cls(w_id, i_id)


@dataclass(frozen=True, slots=True)
class Made:
    """A job that was ordered."""

    job_id: int
    job_key: str
    volumes: int


@dataclass(frozen=True, slots=True)
class StageCount:
    """A stage of a job: how many volumes wait for it, are in hand, have passed it, failed in it.

    seconds is what its last turns took, together; pages is how many those were.
    """

    stage: str
    waiting: int
    in_hand: int
    passed: int
    failed: int
    turns: int
    pages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Board:
    """A job at a glance."""

    job_id: int
    job_key: str
    status: str
    volumes: int
    done: int
    failed: int
    stages: Sequence[StageCount]
    in_hand: Sequence[Mapping[str, Any]]
    outage: str | None
    passed_at: str | None

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Board:
        """Make it from what volume_board answers."""
        counts = {(row["stage"], row["status"]): row["volumes"] for row in answer["stages"]}
        return cls(
            job_id=answer["job_id"],
            job_key=answer["job_key"],
            status=answer["status"],
            volumes=sum(counts.values()),
            done=counts.get(("done", "done"), 0),
            failed=sum(count for (_, status), count in counts.items() if status == "failed"),
            stages=[_count(stage, counts, answer) for stage in stages.STAGES],
            in_hand=answer["in_hand"],
            outage=(answer["outage"] or {}).get("message"),
            passed_at=answer["orchestrator"]["passed_at"],
        )


def _count(
    stage: str, counts: Mapping[tuple[str, str], int], answer: Mapping[str, Any]
) -> StageCount:
    order = ("pending", *stages.STAGES, "done")
    number = order.index(stage)
    before = order[number - 1]
    in_hand = answer["in_hand_by_stage"].get(stage, 0)
    published = counts.get((stage, "running"), 0)
    ready = counts.get((before, "done"), 0) + counts.get((before, "pending"), 0)
    passed = sum(counts.get((later, status), 0) for later in order[number + 1 :] for status in _ALL)
    timing = answer["timing"].get(stage, {})
    return StageCount(
        stage,
        waiting=published - in_hand + ready,
        in_hand=in_hand,
        passed=passed + counts.get((stage, "done"), 0),
        failed=counts.get((stage, "failed"), 0),
        turns=timing.get("volumes") or 0,
        pages=timing.get("pages") or 0,
        seconds=timing.get("seconds") or 0.0,
    )


_ALL = ("pending", "running", "done", "failed")


@dataclass(frozen=True, slots=True)
class Jobs:
    """All jobs that the database shows us."""

    database: Database

    async def create(  # what can be wished of a job
        self,
        volumes: Iterable[Name],
        *,
        job_key: str | None = None,
        config: Mapping[str, Any] | None = None,
        max_attempts: int = 3,
        stage_seconds: int = 21_600,
    ) -> Made:
        """Order volumes; a config that makes no sense is refused before anything is sent."""
        configs.Config.parse(config or {})
        answer = await self.database.rpc(
            "create_volume_job",
            p_volumes=[{"bdrc_w_id": v.w_id, "bdrc_i_id": v.i_id} for v in volumes],
            p_job_key=job_key,
            p_config=dict(config or {}),
            p_max_attempts=max_attempts,
            p_stage_seconds=stage_seconds,
        )
        _require(answer, hint="choose another, with --key on the command line")
        return Made(answer["job_id"], answer["job_key"], answer["volumes"])

    async def find(self, wanted: str) -> int:
        """Find a job by its key or id."""
        for column in ("job_key", "id") if wanted.isdecimal() else ("job_key",):
            rows = await self.database.select(
                tables.volume_jobs, columns="id", where={column: wanted}
            )
            if rows:
                return int(rows[0]["id"])
        raise errors.InvalidCall(
            f"there is no job {wanted}", hint="see `pagewarden volumes status`"
        )

    async def board(self, job_id: int) -> Board:
        """Look at a job."""
        return Board.from_answer(await self.database.rpc("volume_board", p_job_id=job_id))

    async def listed(self, *, limit: int = 50) -> list[dict[str, Any]]:
        """List the newest jobs."""
        found: list[dict[str, Any]] = await self.database.rpc("list_volume_jobs", p_limit=limit)
        return found

    async def tasks(
        self, job_id: int, *, stage: str | None = None, status: str | None = None
    ) -> list[dict[str, Any]]:
        """List all volumes of a job, or those of a stage or status, failed ones first.

        Pages are turned in an order in which nothing moves, so none is missing.
        """
        found: list[dict[str, Any]] = []
        while True:
            page = await self.database.rpc(
                "list_volume_tasks",
                p_job_id=job_id,
                p_stage=stage,
                p_status=status,
                p_after_id=found[-1]["task_id"] if found else None,
                p_limit=_PAGE,
                p_by_id=True,
            )
            found += page
            if len(page) < _PAGE:
                return sorted(found, key=lambda row: (row["rank"], row["task_id"]))

    async def history(self, job_id: int, volume: Name) -> list[dict[str, Any]]:
        """List the newest turns of workers at a volume, the last one first."""
        (task_id,) = await self._ids(job_id, [volume])
        found: list[dict[str, Any]] = await self.database.rpc(
            "volume_history", p_task_id=task_id, p_limit=_PAGE
        )
        return found

    async def rerun(
        self,
        job_id: int,
        stage: str | None,
        *,
        volumes: Sequence[Name] = (),
        only_failed: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> tuple[int, int]:
        """Have a stage, or the one that failed, done again; tell how many, and how many not.

        A config is that of the job, so it may only change when it concerns no other volumes.
        """
        if config:
            await self._require_change(job_id, stage or stages.STAGES[0], config)
            await self._require_no_others(job_id, volumes, only_failed=only_failed)
        answer = await self.database.rpc(
            "rerun_volumes",
            p_job_id=job_id,
            p_stage=stage,
            p_task_ids=await self._ids(job_id, volumes) if volumes else None,
            p_only_failed=only_failed,
            p_config=dict(config) if config else None,
        )
        _require(answer)
        return answer["rerun"], answer["skipped"]

    async def config(self, job_id: int) -> dict[str, Any]:
        """Give the config of a job, as it was ordered and changed since."""
        (row,) = await self.database.select(
            tables.volume_jobs, columns="config", where={"id": job_id}
        )
        found: dict[str, Any] = row["config"]
        return found

    async def cancel(self, job_id: int, reason: str | None = None) -> int:
        """End a job now; tell how many volumes were taken from queues and workers."""
        answer = await self.database.rpc("cancel_volume_job", p_job_id=job_id, p_reason=reason)
        _require(answer)
        taken: int = answer["taken_back"]
        return taken

    async def _require_change(self, job_id: int, stage: str, config: Mapping[str, Any]) -> None:
        changes.require(stage, await self.config(job_id), config)

    async def _require_no_others(
        self, job_id: int, volumes: Sequence[Name], *, only_failed: bool
    ) -> None:
        """Refuse to change the config under volumes that nobody meant, and that still go on."""
        if not volumes and not only_failed:
            return
        others = 0
        for row in await self.tasks(job_id):
            meant = not volumes or Name(row["bdrc_w_id"], row["bdrc_i_id"]) in volumes
            meant = meant and (row["status"] == "failed" or not only_failed)
            others += not meant and not _has_ended(row)
        if others:
            raise errors.InvalidCall(
                f"the config is that of the whole job, and {others:,} other volumes of it go on",
                hint="wait for them, or order these volumes as a job of their own",
            )

    async def _ids(self, job_id: int, volumes: Sequence[Name]) -> list[int]:
        known: dict[Name, int] = {}
        for start in range(0, len(volumes), _NAMES):
            known |= await self._tasks_of(job_id, volumes[start : start + _NAMES])
        missing = [str(name) for name in volumes if name not in known]
        if missing:
            raise errors.InvalidCall(f"the job has no volume {', '.join(missing)}")
        return [known[name] for name in volumes]

    async def _tasks_of(self, job_id: int, volumes: Sequence[Name]) -> dict[Name, int]:
        """Find the tasks of these volumes; what the job does not have is left out."""
        rows = await self.database.select(
            tables.volumes,
            columns="id,bdrc_w_id,bdrc_i_id",
            where={
                "bdrc_w_id": sorted({name.w_id for name in volumes}),
                "bdrc_i_id": sorted({name.i_id for name in volumes}),
            },
        )
        names = {row["id"]: Name(row["bdrc_w_id"], row["bdrc_i_id"]) for row in rows}
        if not names:
            return {}
        tasks = await self.database.select(
            tables.volume_tasks,
            columns="id,volume_id",
            where={"job_id": job_id, "volume_id": sorted(names)},
        )
        return {names[task["volume_id"]]: task["id"] for task in tasks}


def _has_ended(task: Mapping[str, Any]) -> bool:
    if task["status"] == "failed":
        return bool(task["attempts"] >= task["max_attempts"])
    return bool(task["stage"] == "done")


def _require(answer: Mapping[str, Any], hint: str | None = None) -> None:
    if not answer["success"]:
        raise errors.InvalidCall(answer["message"], hint=hint)
