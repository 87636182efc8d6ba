"""One volume of a job: every turn of a worker, what came of it, its pages, failed ones first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, parts, rendering, route, visitors
from dashboard.pages import volume_job, volumes
from pagewarden import errors
from pagewarden.files import paths
from pagewarden.volumes import layout, stages

if TYPE_CHECKING:
    from pagewarden.volumes import looking

router = APIRouter(
    prefix=f"{volumes.PAGE.path}/{{job_key}}/{{volume}}",
    route_class=route.Route,
    include_in_schema=False,
)

PAGES = 100
_TURNS = 50


@router.get("")
async def one(
    request: Request,
    visitor: visitors.Signed,
    used: parts.Used,
    job_key: str,
    volume: str,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """Show a volume; while it is under way, the page asks for it again."""
    job, task = await find(visitor, job_key, volume)
    turns = await visitor.database.rpc("volume_history", p_task_id=task["id"], p_limit=_TURNS)
    results = await visitor.database.select("volume_results", where={"task_id": task["id"]})
    return rendering.page(
        request,
        "volume.html",
        part=request.headers.get("HX-Target") == "volume",
        job=job,
        task=task,
        turns=turns,
        result=results[0] if results else None,
        possible=_possible(task),
        is_open=job["status"] == "running" and task["status"] != "failed" and not _is_done(task),
        here=address(job, task),
        **await _pages(used, job, task, page),
    )


@router.post("/rerun")
async def rerun(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    job_key: str,
    volume: str,
    stage: Annotated[volume_job.Stage | None, Form()] = None,
) -> Response:
    """Have a stage of this volume done again, or the one that failed."""
    job, task = await find(visitor, job_key, volume)
    answer = await visitor.database.rpc(
        "rerun_volumes", p_job_id=job["id"], p_stage=stage, p_task_ids=[task["id"]]
    )
    return volume_job.said(address(job, task), answer, stage)


async def find(
    visitor: visitors.Visitor, job_key: str, volume: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Give the job and its task for the volume, or say that there is none for this person."""
    job = await volume_job.find(visitor, job_key)
    cuts = [number for number, sign in enumerate(volume) if sign == "-"][:_MOST_DASHES]
    for cut in reversed(cuts):
        name = {"bdrc_w_id": volume[:cut], "bdrc_i_id": volume[cut + 1 :]}
        for found in await visitor.database.select("volumes", columns="id", where=name):
            tasks = await visitor.database.select(
                "volume_tasks", where={"job_id": job["id"], "volume_id": found["id"]}
            )
            if tasks:
                return job, {**tasks[0], **name}
    raise HTTPException(404, "the job has no such volume")


# Names of volumes are two, joined by a dash, and may have dashes of their own.
_MOST_DASHES = 10


def address(job: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """Write the address of a volume."""
    return f"{volumes.address(job['job_key'])}/{task['bdrc_w_id']}-{task['bdrc_i_id']}"


def keys_of(job: Mapping[str, Any], task: Mapping[str, Any]) -> layout.Volume:
    """Say where its artifacts are."""
    return layout.Volume(job["job_key"], task["bdrc_w_id"], task["bdrc_i_id"])


def version_of(task: Mapping[str, Any]) -> str:
    """Name what is published at the moment: with each turn that ends, the task has changed."""
    return str(task["updated_at"])


def failed_first(pages: Sequence[looking.Listed]) -> list[looking.Listed]:
    """Bring the pages that failed to the front, otherwise as they were."""
    return sorted(pages, key=lambda page: page.trouble is None)


def _is_done(task: Mapping[str, Any]) -> bool:
    return bool(task["current_stage"] == "done")


def _possible(task: Mapping[str, Any]) -> list[str]:
    """List the stages that can be done again: those it has come to, and the one that comes."""
    order = ("pending", *stages.STAGES, "done")
    reached = order.index(task["current_stage"])
    if task["status"] in {"pending", "done"}:
        reached += 1
    return [stage for stage in stages.STAGES if order.index(stage) <= reached]


async def _pages(
    used: parts.Parts, job: Mapping[str, Any], task: Mapping[str, Any], number: int
) -> dict[str, Any]:
    """Give the pages that are shown, or say why there are none."""
    shown: dict[str, Any] = {
        "pages": [], "figures": {}, "all_pages": 0, "failed_pages": 0, "number": number,
        "last": 1, "why_none": "", "is_linked": paths.is_path,
    }  # fmt: skip
    version = version_of(task)
    try:
        looked, keys = await used.volumes.get(), keys_of(job, task)
        every = failed_first(await looked.pages(keys, version))
        pages = every[PAGES * (number - 1) : PAGES * number]
        names = [page.image_name for page in pages if page.trouble is None]
        figures = await looked.figures(keys, version, names) if names else {}
    except errors.PagewardenError as exc:
        return shown | {"why_none": str(exc)}
    return shown | {
        "pages": pages,
        "figures": figures,
        "all_pages": len(every),
        "failed_pages": sum(page.trouble is not None for page in every),
        "last": max(-(-len(every) // PAGES), 1),
    }
