"""One job of volumes: stages as a board, what each volume took, what can be done."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from dashboard import (
    boards,
    books,
    forgery,
    lists,
    notices,
    outcomes,
    recipes,
    rendering,
    route,
    visitors,
    waits,
)
from pagewarden import errors
from pagewarden.database import rows
from pagewarden.volumes import jobs, stages

router = APIRouter(
    prefix=f"{books.PATH}/{{job_key}}", route_class=route.Route, include_in_schema=False
)

ROWS = 50
_FOUND = 1000  # no work has more volumes


class Stage(enum.StrEnum):
    """A stage that can be done again."""

    LINE_DETECTION = "line_detection"
    LINE_EXTRACTION = "line_extraction"
    OCR = "ocr"
    REDUCE = "reduce"


class Act(enum.StrEnum):
    """What else can be done with a job; the values are parts of paths."""

    RETRY = "retry"
    CANCEL = "cancel"


class After(lists.Filter):
    """Where the last page of the table ended, which volume is looked for, what is to be redone."""

    after_rank: int | None = None
    after_id: int | None = None
    find: str = ""
    again: Stage | None = None


class Again(recipes.Changed):
    """Which stage is to be done again, of which volumes, and with what changed."""

    stage: Stage
    only_failed: bool = False


@router.get("")
async def one(
    request: Request, visitor: visitors.Signed, job: books.Job, after: Annotated[After, Query()]
) -> Response:
    """Show a job, or the volume of it that is looked for.

    While it is under way, the page asks for it again.
    """
    sought, part = after.find.strip(), request.headers.get("HX-Target") == "job"
    if sought and not part and (book := await books.find(visitor, job, sought)):
        return RedirectResponse(book.address, 303)
    seen = await visitor.database.volume_board(job_id=job["id"])
    board = jobs.Board.from_answer(seen)
    return rendering.page(
        request,
        "volume_job.html",
        part=part,
        job=job,
        board=board,
        columns=await boards.laid(visitor, seen),
        stages=stages.STAGES,
        is_open=board.status == "running",
        choices=recipes.CHOICES,
        is_unmoved=waits.is_unmoved(board),
        waits=await waits.for_workers(visitor, board),
        here=books.job_address(job["job_key"]),
        sought=sought,
        again=after.again,
        found=await books.of_work(visitor, job, sought, _FOUND) if sought and not part else [],
        **await _rows(visitor, job, after),
    )


@router.post("/rerun")
async def rerun(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    job: books.Job,
    given: Annotated[Again, Form()],
) -> Response:
    """Have a stage of all volumes, or of those that failed, done again."""
    return await done_again(
        visitor,
        books.job_address(job["job_key"]),
        job["id"],
        given.stage,
        only_failed=given.only_failed,
        config=given.config(job["config"]),
    )


@router.post("/{act}")
async def act(
    visitor: visitors.Signed, _acting: forgery.Acting, job: books.Job, act: Act
) -> Response:
    """Cancel the job, or have failed volumes go on where they failed."""
    here = books.job_address(job["job_key"])
    if act is Act.CANCEL:
        cancelled = await visitor.database.cancel_volume_job(job_id=job["id"])
        return notices.answered(here, cancelled, "The job is cancelled; what is done of it stays.")
    if job["status"] == "cancelled":
        answer = await visitor.database.rerun_volumes(job_id=job["id"])
        return notices.answered(here, answer, "The job goes on.")
    return await done_again(visitor, here, job["id"], None)


async def done_again(
    visitor: visitors.Visitor,
    path: str,
    job_id: int,
    stage: str | None,
    **wishes: Any,  # noqa: ANN401  # as Jobs.rerun takes them
) -> Response:
    """Have a stage, or the one that failed, done again; say what came of it."""
    try:
        number, skipped = await jobs.Jobs(visitor.database).rerun(job_id, stage, **wishes)
    except (errors.SettingsError, errors.InvalidCall, errors.Forbidden) as exc:
        return notices.after(path, f"Nothing was done: {exc}", bad=True)
    return said(path, number, skipped, stage)


def said(path: str, number: int, skipped: int, stage: str | None) -> Response:
    """Say how many volumes go through a stage, or the one that failed, again."""
    again, queue = "is" if number == 1 else "are", stage or "the stage that failed"
    words = f"{outcomes.count(number, 'volume')} {again} in the queue of {queue} again."
    if not number:
        words = "Nothing was done: no volume is such that this could be done again."
    if skipped:
        words += f" {outcomes.count(skipped, 'volume')} had not come to it yet."
    return notices.after(path, words, bad=not number)


async def _rows(visitor: visitors.Visitor, job: rows.VolumeJobs, after: After) -> dict[str, Any]:
    found = await visitor.database.list_volume_tasks(
        job_id=job["id"],
        after_rank=after.after_rank,
        after_id=after.after_id,
        limit=ROWS + 1,
    )
    here = books.job_address(job["job_key"])

    def go_on(last: rows.ListedVolumeTask) -> str:
        return after.address(here, after_rank=last["rank"], after_id=last["task_id"])

    shown, more = lists.cut(found, ROWS, go_on)
    longest = max((max(row["seconds"].values(), default=0) for row in shown), default=0)
    return {"rows": shown, "more": more, "longest": longest or 1, "reload": after.address(here)}
