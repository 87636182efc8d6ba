"""Volume jobs and volumes that the signed-in user may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.exceptions import HTTPException

from pagewarden.dashboard import sessions
from pagewarden.database import rows, tables
from pagewarden.volumes import artifact_keys

PATH = "/volumes"

# A volume name joins work and image group by a dash; both may contain dashes.
_MAX_DASHES = 10


def job_url(job_key: str) -> str:
    """Return the URL of a job; job keys need no escaping."""
    return f"{PATH}/{job_key}"


def parse_job_key(key: str) -> str | None:
    """Return the job key in the key of an artifact; None if it is not in a job."""
    match key.split("/"):
        case ["jobs", job_key, _, *_]:
            return job_key
    return None


@dataclass(frozen=True, slots=True)
class JobVolume:
    """A volume of a job, with its rows of volume_jobs and volume_tasks."""

    job: rows.VolumeJobs
    task: rows.VolumeTasks
    w_id: str
    i_id: str

    @property
    def name(self) -> str:
        """Return the display name: work and image group."""
        return f"{self.w_id}-{self.i_id}"

    @property
    def url(self) -> str:
        """Return the URL of the volume's page."""
        return f"{job_url(self.job['job_key'])}/{self.name}"

    @property
    def volume_version(self) -> artifact_keys.VolumeVersion:
        """Return which artifacts are published; raise a PagewardenError if there cannot be any."""
        return artifact_keys.VolumeVersion(
            artifact_keys.VolumeKeys(self.job["job_key"], self.w_id, self.i_id),
            self._make_version,
            combined=self.job["config"].get("reducer") == "combine",
        )

    @property
    def _make_version(self) -> str:
        """Identify the published artifacts; the version changes when an attempt begins or ends."""
        task = self.task
        is_held = task["token"] is not None
        return f"{task['publications']} {task['current_stage']} {task['status']} {is_held}"


async def _require_job(user: sessions.SignedIn, job_key: str) -> rows.VolumeJobs:
    found = await user.database.select(tables.volume_jobs, where={"job_key": job_key})
    if not found:
        raise HTTPException(404, "the job does not exist, or you have no access to it")
    return found[0]


Job = Annotated[rows.VolumeJobs, Depends(_require_job)]
"""Route parameter type: the job in the path, as a row of volume_jobs; 404 if missing."""


async def find_volume(
    user: sessions.CurrentUser, job: rows.VolumeJobs, name: str
) -> JobVolume | None:
    """Find a volume of a job by its name; None if it does not exist."""
    cuts = [number for number, character in enumerate(name) if character == "-"][-_MAX_DASHES:]
    for cut in reversed(cuts):
        w_id, i_id = name[:cut], name[cut + 1 :]
        found = await _select_volumes(user, job, {"bdrc_w_id": w_id, "bdrc_i_id": i_id})
        if found:
            return found[0]
    return None


async def list_work_volumes(
    user: sessions.CurrentUser, job: rows.VolumeJobs, w_id: str, limit: int
) -> list[JobVolume]:
    """List the volumes of a work in a job."""
    return await _select_volumes(user, job, {"bdrc_w_id": w_id}, limit)


async def _select_volumes(
    user: sessions.CurrentUser,
    job: rows.VolumeJobs,
    where: Mapping[str, object],
    limit: int | None = None,
) -> list[JobVolume]:
    found = await user.database.select(tables.volumes, where=where, order="bdrc_i_id", limit=limit)
    names = {row["id"]: (row["bdrc_w_id"], row["bdrc_i_id"]) for row in found}
    if not names:
        return []
    tasks = await user.database.select(
        tables.volume_tasks, where={"job_id": job["id"], "volume_id": list(names)}
    )
    task_by_volume = {task["volume_id"]: task for task in tasks}
    return [
        JobVolume(job, task_by_volume[key], *name)
        for key, name in names.items()
        if key in task_by_volume
    ]


async def _require_volume(user: sessions.SignedIn, job: Job, volume: str) -> JobVolume:
    found = await find_volume(user, job, volume)
    if found is None:
        raise HTTPException(404, "the job has no such volume")
    return found


Volume = Annotated[JobVolume, Depends(_require_volume)]
"""Route parameter type: the volume in the path; 404 if missing."""
