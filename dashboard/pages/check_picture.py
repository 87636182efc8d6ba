"""One picture of a check job: what is wrong and where, to be accepted or rejected."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, rendering, route, visitors
from dashboard.pages import check_job, checks
from pagewarden.checks import framing
from pagewarden.database import rows

router = APIRouter(
    prefix=f"{checks.PAGE.path}/{{job_id}}/pictures/{{position}}",
    route_class=route.Route,
    include_in_schema=False,
)


class Decision(enum.StrEnum):
    """What a person makes of a picture; empty takes it back."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NONE = ""


class Given(BaseModel):
    """What the form of a picture says; run is the one of which the result was shown."""

    run: int
    decision: Decision = Decision.NONE
    show: check_job.Show = check_job.Show.ALL


@router.get("")
async def one(
    request: Request,
    visitor: visitors.Signed,
    job_id: uuid.UUID,
    position: int,
    show: check_job.Show = check_job.Show.ALL,
) -> Response:
    """Show a picture with its issues drawn on it."""
    job = await check_job.find(visitor, job_id)
    result = _result(job, position)
    shown = [other["position"] for other in job["results"] if show.wants(other)]
    waiting = check_job.next_undecided(job["results"], position)
    frame = framing.frame(result) if result["width"] and result["height"] else None
    return rendering.page(
        request,
        "check_picture.html",
        job=job,
        result=result,
        show=show,
        frame=frame,
        places=_places(frame),
        expected=framing.expected(result),
        back=check_job.address(job_id, show),
        before=next((_address(job, n, show) for n in reversed(shown) if n < position), None),
        after=next((_address(job, n, show) for n in shown if n > position), None),
        following=_result(job, waiting)["documentId"] if waiting else None,
        may_decide=result["verdict"] and await visitors.may_edit(visitor, str(job_id)),
    )


@router.post("")
async def decide(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    job_id: uuid.UUID,
    position: int,
    given: Annotated[Given, Form()],
) -> Response:
    """Note what a person makes of it, and lead to the next picture that waits for one."""
    job = await check_job.find(visitor, job_id)
    here = _address(job, position, given.show)
    if given.run != job["run"]:
        said = "Nothing was decided: the job was run again meanwhile. Look at it once more."
        return notices.after(here, said, bad=True)
    answer = await visitor.database.decide_check(
        job_id=str(job_id), position=position, decision=given.decision or None
    )
    if not answer["success"] or not given.decision:
        return notices.answered(here, answer, "It is undecided again.")
    return _onwards(await check_job.find(visitor, job_id), position, given)


def _onwards(job: rows.CheckJobDetails, position: int, given: Given) -> Response:
    done = f"{_result(job, position)['image']} is {given.decision}."
    waiting = check_job.next_undecided(job["results"], position)
    if waiting is not None:
        return notices.after(_address(job, waiting, given.show), done)
    left = " so far" if job["status"] in checks.UNDER_WAY else ""
    return notices.after(checks.address(job["jobId"]), f"{done} Nothing else waits{left}.")


def _result(job: rows.CheckJobDetails, position: int) -> rows.CheckJobResult:
    for result in job["results"]:
        if result["position"] == position:
            return result
    raise HTTPException(404, "the job has no such picture")


def _places(frame: framing.Frame | None) -> dict[int, int]:
    """Name the mark of each issue that has one, by the first issue that it is of."""
    marks = frame.marks if frame else ()
    return {number: mark.numbers[0] for mark in marks for number in mark.numbers}


def _address(job: rows.CheckJobDetails, position: int, show: check_job.Show) -> str:
    return f"{checks.address(job['jobId'])}/pictures/{position}{check_job.query(show)}"
