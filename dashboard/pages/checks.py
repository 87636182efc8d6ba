"""Checks: the list of jobs, a form for new ones, one job, and one picture to accept or reject."""

from __future__ import annotations

import enum
import functools
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from pagewarden import errors, services
from pagewarden.checks import report as checks_report
from pagewarden.checks.report import MEDIA_TYPES, ReportFormat, render
from pagewarden.checks.rules import languages
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.database import tables
from pagewarden.database.rows import CheckJobChange, CheckJobDetails, CheckJobResult
from pagewarden.web import job_form

PAGE = route.Page("Checks", "/checks")

router = APIRouter(prefix=PAGE.path, include_in_schema=False)

ROWS = 50
UNFINISHED = {"PENDING", "PROCESSING"}
LANGUAGES = {
    language.code: f"{language.name} ({language.code})"
    for language in sorted(languages.LANGUAGES.values(), key=lambda language: language.name)
}


class Status(enum.StrEnum):
    """The status of a job; empty for any."""

    ANY = ""
    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Filter(lists.ListFilter):
    """Filters of the list; before and before_id are those of the last row of the previous page."""

    path = PAGE.path

    status: Status = Status.ANY
    everybody: bool = False
    before: str = ""
    before_id: str = ""

    def params(self) -> dict[str, Any]:
        """Return the arguments of list_check_jobs; empty filters match all."""
        params = {
            "status": self.status, "before": self.before, "before_id": self.before_id,
        }  # fmt: skip
        return {name: value for name, value in params.items() if value} | {
            "everybody": self.everybody
        }


async def show_list(
    request: Request,
    user: sessions.SignedIn,
    services: services.Current,
    filters: Annotated[Filter, Query()],
) -> Response:
    """Show matching jobs; htmx reloads them while any is unfinished."""
    return rendering.render_page(
        request,
        "checks.html",
        is_fragment=request.headers.get("HX-Target") == "results",
        filters=filters,
        statuses={status.value: status.lower() for status in Status if status},
        languages=LANGUAGES,
        limits=services.check_jobs.limits,
        default_language=services.check_jobs.default_language,
        **await _read_page(user, filters),
    )


async def submit_job(
    request: Request, user: sessions.SignedIn, services: services.Current
) -> Response:
    """Create a job and redirect to it, or show all problems of the submission."""
    check_token = csrf.make_token_check(request, services, user)
    try:
        job = await job_form.submit_job(request, services.check_jobs, user.database, check_token)
    except errors.RequestRejected as exc:
        if exc.problems:
            return _render_problems(request, exc)
        raise
    if route.wants_json(request):
        return JSONResponse({"location": job_url(job.job_id)})
    return flash.redirect_with_notice(job_url(job.job_id), "The pictures were queued.")


router.add_api_route("", show_list, route_class_override=route.Route)
router.add_api_route(
    "",
    submit_job,
    methods=["POST"],
    dependencies=[csrf.OWN_ORIGIN],
    route_class_override=route.UploadRoute,
)


def job_url(job_id: object) -> str:
    """Return the URL of a job."""
    return f"{PAGE.path}/{job_id}"


def _render_problems(request: Request, exc: errors.RequestRejected) -> Response:
    if route.wants_json(request):
        problems = [
            {"problem": problem.problem, "image": problem.image} for problem in exc.problems
        ]
        return JSONResponse({"message": str(exc), "problems": problems}, 400)
    return rendering.render_page(request, "check_refused.html", 400, problems=exc.problems)


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    rows = await user.database.list_check_jobs(**filters.params(), limit=ROWS + 1)

    def make_next_url(last: Mapping[str, Any]) -> str:
        return filters.url(before=last["createdAt"], before_id=last["jobId"])

    shown, next_url = lists.split_page(rows, ROWS, make_next_url)
    return {
        "rows": shown,
        "next_url": next_url,
        "is_open": any(row["status"] in UNFINISHED for row in shown),
    }


job_router = APIRouter(
    prefix=f"{PAGE.path}/{{job_id}}", route_class=route.Route, include_in_schema=False
)


class PictureFilter(enum.StrEnum):
    """Which pictures to show; empty for all."""

    ALL = ""
    MANUAL = "manual"
    UNDECIDED = "undecided"
    PASS = "pass"  # noqa: S105  # not a password
    UNCHECKED = "unchecked"

    def includes(self, result: CheckJobResult) -> bool:
        """Tell whether to show a picture."""
        verdict = result["verdict"]
        match self:
            case PictureFilter.MANUAL:
                return bool(verdict == "MANUAL")
            case PictureFilter.UNDECIDED:
                return verdict == "MANUAL" and result["decision"] is None
            case PictureFilter.PASS:
                return bool(verdict == "PASS")
            case PictureFilter.UNCHECKED:
                return verdict is None
        return True


class Action(enum.StrEnum):
    """Actions on a job; the values are parts of paths."""

    CANCEL = "cancel"
    RERUN = "rerun"
    RERUN_ALL = "rerun-all"


_DONE: Mapping[Action, str] = {
    Action.CANCEL: "The job was cancelled. Results so far are kept.",
    Action.RERUN: "Pictures without a result were queued again.",
    Action.RERUN_ALL: "All pictures were queued again.",
}


@job_router.get("")
async def show_job(
    request: Request,
    user: sessions.SignedIn,
    job_id: uuid.UUID,
    show: PictureFilter = PictureFilter.ALL,
) -> Response:
    """Show a job; htmx reloads it while it is unfinished."""
    job = await find_job(user, job_id)
    return rendering.render_page(
        request,
        "check_job.html",
        has_file=await _make_file_check(user, job_id),
        is_fragment=request.headers.get("HX-Target") == "job",
        job=job,
        languages=LANGUAGES,
        show=show,
        kinds={kind: sum(map(kind.includes, job["results"])) for kind in PictureFilter},
        pictures=[result for result in job["results"] if show.includes(result)],
        waiting=next_undecided(job["results"]),
        actions=_list_actions(job) if await sessions.may_edit(user, str(job_id)) else [],
        is_open=job["status"] in UNFINISHED,
        formats=list(ReportFormat),
    )


@job_router.get("/report/{form}")
async def download_report(
    user: sessions.SignedIn, job_id: uuid.UUID, form: ReportFormat
) -> Response:
    """Download a report."""
    job = await find_job(user, job_id)
    disposition = f'attachment; filename="check-{job_id}.{form}"'
    return Response(
        render(job, form),
        media_type=MEDIA_TYPES[form],
        headers={"Content-Disposition": disposition},
    )


@job_router.post("/{act}")
async def apply_action(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    job_id: uuid.UUID,
    action: Annotated[Action, Path(alias="act")],
) -> Response:
    """Apply the action, and redirect to the job."""
    await find_job(user, job_id)
    calls: Mapping[Action, Callable[..., Awaitable[CheckJobChange]]] = {
        Action.CANCEL: user.database.cancel_check_job,
        Action.RERUN: user.database.rerun_check_job,
        Action.RERUN_ALL: functools.partial(user.database.rerun_check_job, all=True),
    }
    answer = await calls[action](job_id=str(job_id))
    return flash.redirect_with_answer(job_url(job_id), answer, _DONE[action])


def filtered_job_url(job_id: object, show: PictureFilter) -> str:
    """Return the URL of a job, limited to some of its pictures."""
    return job_url(job_id) + make_query(show)


def make_query(show: PictureFilter) -> str:
    """Return the query string that selects these pictures."""
    return f"?{urlencode({'show': show})}" if show else ""


async def find_job(user: sessions.CurrentUser, job_id: uuid.UUID) -> CheckJobDetails:
    """Return a job with its results; raise a 404 if it is missing or the user has no access."""
    missing = HTTPException(404, "the job does not exist, or you have no access to it")
    try:
        job = (await user.database.check_job(job_id=str(job_id)))["job"]
    except errors.Forbidden as exc:
        raise missing from exc
    if job is None:
        raise missing
    return job


def next_undecided(results: Sequence[CheckJobResult], after: int = 0) -> int | None:
    """Return the position of the next undecided picture, from the start after the last one."""
    undecided = [
        result["position"] for result in results if PictureFilter.UNDECIDED.includes(result)
    ]
    return next(
        (position for position in undecided if position > after), next(iter(undecided), None)
    )


def _list_actions(job: CheckJobDetails) -> list[Action]:
    """List the actions that apply to the state of a job."""
    if job["status"] in UNFINISHED:
        return [Action.CANCEL]
    is_complete = job["status"] == "SUCCEEDED"
    return [Action.RERUN_ALL] if is_complete else [Action.RERUN, Action.RERUN_ALL]


async def _make_file_check(
    user: sessions.CurrentUser, job_id: uuid.UUID
) -> Callable[[CheckJobResult], bool]:
    """Return a function that tells whether there is a file of a picture."""
    found = await user.database.select(
        tables.documents, columns="id", where={"case_id": str(job_id), "dropbox_path": None}
    )
    missing = {row["id"] for row in found}
    return lambda result: result["documentId"] not in missing


picture_router = APIRouter(
    prefix=f"{PAGE.path}/{{job_id}}/pictures/{{position}}",
    route_class=route.Route,
    include_in_schema=False,
)


class Decision(enum.StrEnum):
    """A reviewer's decision about a picture; empty to undo it."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NONE = ""


class DecisionForm(BaseModel):
    """The submitted form; `run` is the run whose result was shown."""

    run: int
    decision: Decision = Decision.NONE
    show: PictureFilter = PictureFilter.ALL


@picture_router.get("")
async def show_picture(
    request: Request,
    user: sessions.SignedIn,
    job_id: uuid.UUID,
    position: int,
    show: PictureFilter = PictureFilter.ALL,
) -> Response:
    """Show a picture with its issues marked."""
    job = await find_job(user, job_id)
    result = _get_result(job, position)
    shown = [other["position"] for other in job["results"] if show.includes(other)]
    waiting = next_undecided(job["results"], position)
    has_file = await _make_file_check(user, job_id)
    following = _get_result(job, waiting) if waiting else None
    frame = checks_report.frame_issues(result) if result["width"] and result["height"] else None
    return rendering.render_page(
        request,
        "check_picture.html",
        job=job,
        result=result,
        show=show,
        frame=frame,
        mark_numbers=_map_issues_to_marks(frame),
        expected=checks_report.list_expected(result),
        back=filtered_job_url(job_id, show),
        before=next((_picture_url(job, n, show) for n in reversed(shown) if n < position), None),
        after=next((_picture_url(job, n, show) for n in shown if n > position), None),
        following=following["documentId"] if following and has_file(following) else None,
        has_file=has_file,
        may_decide=result["verdict"] and await sessions.may_edit(user, str(job_id)),
    )


@picture_router.post("")
async def decide(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    job_id: uuid.UUID,
    position: int,
    form: Annotated[DecisionForm, Form()],
) -> Response:
    """Save the decision, and redirect to the next undecided picture."""
    job = await find_job(user, job_id)
    url = _picture_url(job, position, form.show)
    if form.run != job["run"]:
        message = "Not saved: the job was rerun in the meantime. Check the new result."
        return flash.redirect_with_notice(url, message, is_error=True)
    answer = await user.database.decide_check(
        job_id=str(job_id), position=position, decision=form.decision or None
    )
    if not answer["success"] or not form.decision:
        return flash.redirect_with_answer(url, answer, "The decision was undone.")
    return _redirect_to_next(await find_job(user, job_id), position, form)


def _redirect_to_next(job: CheckJobDetails, position: int, form: DecisionForm) -> Response:
    done = f"{_get_result(job, position)['image']} is {form.decision}."
    waiting = next_undecided(job["results"], position)
    if waiting is not None:
        return flash.redirect_with_notice(_picture_url(job, waiting, form.show), done)
    suffix = " so far" if job["status"] in UNFINISHED else ""
    return flash.redirect_with_notice(
        job_url(job["jobId"]), f"{done} No undecided pictures are left{suffix}."
    )


def _get_result(job: CheckJobDetails, position: int) -> CheckJobResult:
    for result in job["results"]:
        if result["position"] == position:
            return result
    raise HTTPException(404, "the job has no such picture")


def _map_issues_to_marks(frame: checks_report.PictureOverlay | None) -> dict[int, int]:
    """Map each marked issue to its mark, which has the number of its first issue."""
    marks = frame.marks if frame else ()
    return {number: mark.numbers[0] for mark in marks for number in mark.numbers}


def _picture_url(job: CheckJobDetails, position: int, show: PictureFilter) -> str:
    return f"{job_url(job['jobId'])}/pictures/{position}{make_query(show)}"
