"""One volume of a job: every turn of a worker, what came of it, its pages, failed ones first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from dashboard import books, forgery, leaves, notices, parts, rendering, route, visitors
from dashboard.pages import volume_files, volume_job
from pagewarden.database import tables
from pagewarden.volumes import stages

router = APIRouter(
    prefix=f"{books.PATH}/{{job_key}}/{{volume}}",
    route_class=route.Route,
    include_in_schema=False,
)

_TURNS = 50


@router.get("")
async def one(
    request: Request,
    visitor: visitors.Signed,
    used: parts.Used,
    book: books.Seen,
    chosen: Annotated[leaves.Filter, Query()],
) -> Response:
    """Show a volume, or the page of it that is looked for.

    While it is under way, the page asks for it again.
    """
    part = request.headers.get("HX-Target") == "volume"
    if not part and (meant := await leaves.meant(used, book, chosen)):
        return RedirectResponse(leaves.address(book, meant), 303)
    turns = await visitor.database.rpc("volume_history", p_task_id=book.task["id"], p_limit=_TURNS)
    results = await visitor.database.select(
        tables.volume_results, where={"task_id": book.task["id"]}
    )
    return rendering.page(
        request,
        "volume.html",
        part=part,
        book=book,
        task=book.task,
        turns=[{**turn, "seconds": _seconds(turn)} for turn in turns],
        result=results[0] if results else None,
        possible=_possible(book.task),
        is_open=book.job["status"] == "running" and not _has_ended(book.task),
        **await volume_files.shown(used, book),
        chosen=chosen,
        **await leaves.shown(used, book, chosen),
    )


@router.post("/rerun")
async def rerun(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    book: books.Seen,
    stage: Annotated[volume_job.Stage | None, Form()] = None,
) -> Response:
    """Have a stage of this volume done again, or the one that failed."""
    answer = await visitor.database.rpc(
        "rerun_volumes", p_job_id=book.job["id"], p_stage=stage, p_task_ids=[book.task["id"]]
    )
    if not answer["success"]:
        return notices.answered(book.address, answer, "")
    return volume_job.said(book.address, answer["rerun"], answer["skipped"], stage)


def _seconds(turn: Mapping[str, Any]) -> float | None:
    """Say how long a worker had it; None while it still has."""
    if turn["ended_at"] is None:
        return None
    began, ended = (dt.datetime.fromisoformat(turn[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def _has_ended(task: Mapping[str, Any]) -> bool:
    failed = task["status"] == "failed" and task["attempts"] >= task["max_attempts"]
    return bool(failed or task["current_stage"] == "done")


def _possible(task: Mapping[str, Any]) -> list[str]:
    """List the stages that can be done again: those it has come to, and the one that comes."""
    order = ("pending", *stages.STAGES, "done")
    reached = order.index(task["current_stage"])
    if task["status"] in {"pending", "done"}:
        reached += 1
    return [stage for stage in stages.STAGES if order.index(stage) <= reached]
