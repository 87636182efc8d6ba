"""One check job: how far it is, what was found in each picture, what can be done."""

from __future__ import annotations

import enum
import functools
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, rendering, route, visitors
from dashboard.pages import checks
from pagewarden import errors
from pagewarden.checks import reports
from pagewarden.database import rows

router = APIRouter(
    prefix=f"{checks.PAGE.path}/{{job_id}}", route_class=route.Route, include_in_schema=False
)


class Show(enum.StrEnum):
    """Which pictures are wanted; empty for all."""

    ALL = ""
    MANUAL = "manual"
    UNDECIDED = "undecided"
    PASS = "pass"  # noqa: S105  # no password
    UNCHECKED = "unchecked"

    def wants(self, result: rows.CheckJobResult) -> bool:
        """Tell whether a picture is one of them."""
        verdict = result["verdict"]
        match self:
            case Show.MANUAL:
                return bool(verdict == "MANUAL")
            case Show.UNDECIDED:
                return verdict == "MANUAL" and result["decision"] is None
            case Show.PASS:
                return bool(verdict == "PASS")
            case Show.UNCHECKED:
                return verdict is None
        return True


class Act(enum.StrEnum):
    """What can be done with a job; the values are parts of paths."""

    CANCEL = "cancel"
    RERUN = "rerun"
    RERUN_ALL = "rerun-all"


_DONE: Mapping[Act, str] = {
    Act.CANCEL: "The job is cancelled; what was found so far stays.",
    Act.RERUN: "What has no result is in the queue again.",
    Act.RERUN_ALL: "All pictures are in the queue again.",
}


@router.get("")
async def one(
    request: Request, visitor: visitors.Signed, job_id: uuid.UUID, show: Show = Show.ALL
) -> Response:
    """Show a job; while it is under way, the page asks for it again."""
    job = await find(visitor, job_id)
    return rendering.page(
        request,
        "check_job.html",
        part=request.headers.get("HX-Target") == "job",
        job=job,
        languages=checks.LANGUAGES,
        show=show,
        kinds={kind: sum(map(kind.wants, job["results"])) for kind in Show},
        pictures=[result for result in job["results"] if show.wants(result)],
        waiting=next_undecided(job["results"]),
        acts=_possible(job) if await visitors.may_edit(visitor, str(job_id)) else [],
        is_open=job["status"] in checks.UNDER_WAY,
        formats=list(reports.Format),
    )


@router.get("/report/{form}")
async def report(visitor: visitors.Signed, job_id: uuid.UUID, form: reports.Format) -> Response:
    """Download a report."""
    job = await find(visitor, job_id)
    name = f'attachment; filename="check-{job_id}.{form}"'
    return Response(
        reports.write(job, form),
        media_type=reports.MEDIA_TYPES[form],
        headers={"Content-Disposition": name},
    )


@router.post("/{act}")
async def act(
    visitor: visitors.Signed, _acting: forgery.Acting, job_id: uuid.UUID, act: Act
) -> Response:
    """Do it, and lead back to the job."""
    await find(visitor, job_id)
    calls: Mapping[Act, Callable[..., Awaitable[rows.CheckJobChange]]] = {
        Act.CANCEL: visitor.database.cancel_check_job,
        Act.RERUN: visitor.database.rerun_check_job,
        Act.RERUN_ALL: functools.partial(visitor.database.rerun_check_job, all=True),
    }
    answer = await calls[act](job_id=str(job_id))
    return notices.answered(checks.address(job_id), answer, _DONE[act])


def address(job_id: object, show: Show) -> str:
    """Write the address of a job with some of its pictures."""
    return checks.address(job_id) + query(show)


def query(show: Show) -> str:
    """Write which pictures are wanted as a part of an address."""
    return f"?{urlencode({'show': show})}" if show else ""


async def find(visitor: visitors.Visitor, job_id: uuid.UUID) -> rows.CheckJobDetails:
    """Give the job with its results, or say that there is none for this person."""
    gone = HTTPException(404, "there is no such job, or no longer, or not for you")
    try:
        job = (await visitor.database.check_job(job_id=str(job_id)))["job"]
    except errors.Forbidden as exc:
        raise gone from exc
    if job is None:
        raise gone
    return job


def next_undecided(results: Sequence[rows.CheckJobResult], after: int = 0) -> int | None:
    """Find the next picture that waits for a person: behind this position first."""
    waiting = [one["position"] for one in results if Show.UNDECIDED.wants(one)]
    return next((position for position in waiting if position > after), next(iter(waiting), None))


def _possible(job: rows.CheckJobDetails) -> list[Act]:
    """List what makes sense in this state."""
    if job["status"] in checks.UNDER_WAY:
        return [Act.CANCEL]
    is_whole = job["status"] == "SUCCEEDED"
    return [Act.RERUN_ALL] if is_whole else [Act.RERUN, Act.RERUN_ALL]
