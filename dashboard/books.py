"""Jobs of volumes and their volumes, as far as whoever is signed in may see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from starlette.exceptions import HTTPException

from dashboard import visitors
from pagewarden.database import tables
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
    rows = await visitor.database.select(tables.volume_jobs, where={"job_key": job_key})
    if not rows:
        raise HTTPException(404, "there is no such job, or not for you")
    return rows[0]


Job = Annotated[Mapping[str, Any], Depends(_job)]
"""A parameter of this type is the job of the path, a row of volume_jobs; others get a 404."""


async def find(visitor: visitors.Visitor, job: Mapping[str, Any], name: str) -> Book | None:
    """Find a volume of a job by its name; None if there is no such."""
    cuts = [number for number, sign in enumerate(name) if sign == "-"][-_MOST_DASHES:]
    for cut in reversed(cuts):
        w_id, i_id = name[:cut], name[cut + 1 :]
        found = await _found(visitor, job, {"bdrc_w_id": w_id, "bdrc_i_id": i_id})
        if found:
            return found[0]
    return None


async def of_work(
    visitor: visitors.Visitor, job: Mapping[str, Any], w_id: str, most: int
) -> list[Book]:
    """List volumes of a work in a job."""
    return await _found(visitor, job, {"bdrc_w_id": w_id}, most)


async def _found(
    visitor: visitors.Visitor,
    job: Mapping[str, Any],
    where: Mapping[str, object],
    most: int | None = None,
) -> list[Book]:
    rows = await visitor.database.select(tables.volumes, where=where, order="bdrc_i_id", limit=most)
    names = {row["id"]: (row["bdrc_w_id"], row["bdrc_i_id"]) for row in rows}
    if not names:
        return []
    tasks = await visitor.database.select(
        tables.volume_tasks, where={"job_id": job["id"], "volume_id": list(names)}
    )
    known = {task["volume_id"]: task for task in tasks}
    return [Book(job, known[key], *name) for key, name in names.items() if key in known]


async def _book(visitor: visitors.Signed, job: Job, volume: str) -> Book:
    found = await find(visitor, job, volume)
    if found is None:
        raise HTTPException(404, "the job has no such volume")
    return found


Seen = Annotated[Book, Depends(_book)]
"""A parameter of this type is the volume of the path; others get a 404."""
