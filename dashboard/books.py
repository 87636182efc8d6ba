"""Jobs of volumes and their volumes, as far as whoever is signed in may see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from starlette.exceptions import HTTPException

from dashboard import visitors
from pagewarden.volumes import editions, layout

PATH = "/volumes"

# The name of a volume is two, joined by a dash, and each may have dashes of its own.
_MOST_DASHES = 10


def job_address(job_key: str) -> str:
    """Write the address of a job; keys are such that they may stand there."""
    return f"{PATH}/{job_key}"


def job_of(key: str) -> str | None:
    """Name the job whose artifact this is; None if it is nobody's."""
    match key.split("/"):
        case ["jobs", job_key, _, *_]:
            return job_key
    return None


@dataclass(frozen=True, slots=True)
class Book:
    """A volume of a job: rows of volume_jobs and volume_tasks."""

    job: Mapping[str, Any]
    task: Mapping[str, Any]
    w_id: str
    i_id: str

    @property
    def name(self) -> str:
        """Name it as people do."""
        return f"{self.w_id}-{self.i_id}"

    @property
    def address(self) -> str:
        """Write the address of its page."""
        return f"{job_address(self.job['job_key'])}/{self.name}"

    @property
    def edition(self) -> editions.Edition:
        """Say what is published of it; a PagewardenError where nothing can be."""
        return editions.Edition(
            layout.Volume(self.job["job_key"], self.w_id, self.i_id),
            self._version,
            combined=self.job["config"].get("reducer") == "combine",
        )

    @property
    def _version(self) -> str:
        """Name what is published at the moment: when a turn begins or ends, it is another."""
        task = self.task
        is_held = task["token"] is not None
        return f"{task['publications']} {task['current_stage']} {task['status']} {is_held}"


async def _job(visitor: visitors.Signed, job_key: str) -> Mapping[str, Any]:
    rows = await visitor.database.select("volume_jobs", where={"job_key": job_key})
    if not rows:
        raise HTTPException(404, "there is no such job, or not for you")
    return rows[0]


Job = Annotated[Mapping[str, Any], Depends(_job)]
"""A parameter of this type is the job of the path, a row of volume_jobs; others get a 404."""


async def _book(visitor: visitors.Signed, job: Job, volume: str) -> Book:
    cuts = [number for number, sign in enumerate(volume) if sign == "-"][-_MOST_DASHES:]
    for cut in reversed(cuts):
        w_id, i_id = volume[:cut], volume[cut + 1 :]
        rows = await visitor.database.select(
            "volumes", columns="id", where={"bdrc_w_id": w_id, "bdrc_i_id": i_id}
        )
        for row in rows:
            where = {"job_id": job["id"], "volume_id": row["id"]}
            for task in await visitor.database.select("volume_tasks", where=where):
                return Book(job, task, w_id, i_id)
    raise HTTPException(404, "the job has no such volume")


Seen = Annotated[Book, Depends(_book)]
"""A parameter of this type is the volume of the path; others get a 404."""
