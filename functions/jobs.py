"""jobs: send pictures to be checked, ask how far a job is, fetch reports, cancel, run again."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from functions import answers, callers, job_intake, services
from pagewarden import errors, small_bodies
from pagewarden.checks import reports
from pagewarden.database import rows

NAME = "jobs"

Status = Literal["PENDING", "PROCESSING", "SUCCEEDED", "FAILED", "CANCELLED"]


class _Shown(BaseModel):
    """Has names as the API writes them: jobId."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Accepted(_Shown):
    """A job that is queued."""

    job_id: uuid.UUID
    status_url: str = Field(description="Where to ask how far it is.")
    existing: bool = Field(description="The idempotency key came with this very job before.")


class Issue(BaseModel):
    """One thing that is wrong in a picture; quad is where, its four corners in pixels."""

    kind: str
    severity: Literal["error", "warning", "note"]
    message: str
    quad: list[list[float]] | None = None
    expected: str | None = None
    found: str | None = None
    diff: list[dict[str, str]] = []


class Result(_Shown):
    """What was found in a picture; without a verdict it has not been checked yet."""

    image: str
    position: int
    document_id: uuid.UUID
    reference: list[str] | None
    extracted_text: str | None
    language_checked: bool | None = Field(description="Whether the text's language was checked.")
    match: bool | None = Field(description="All that was expected is there, and nothing else.")
    verdict: Literal["PASS", "MANUAL"] | None
    issues: list[Issue] | None
    strings: list[dict[str, str]] | None = Field(description="What became of each reference.")
    width: int | None
    height: int | None
    decision: Literal["accepted", "rejected"] | None = Field(description="What a person said.")
    error: str | None = Field(description="Why it could not be read.")


class Head(_Shown):
    """How far a job is."""

    job_id: uuid.UUID
    name: str
    status: Status
    language: str | None
    language_checked: bool = Field(description="Whether the language of the text is checked.")
    run: int = Field(description="How often it was run.")
    error: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    images: int
    checked: int
    manual: int
    undecided: int = Field(description="MANUAL ones that nobody has accepted or rejected.")
    passed: int = Field(alias="pass")


class Job(Head):
    """A job with the results so far."""

    results: list[Result]


class Listing(BaseModel):
    """Which jobs are wanted; before and before_id are of the last one of the page before."""

    status: Status | None = None
    limit: int = Field(default=50, ge=1, le=200)
    before: datetime | None = None
    before_id: uuid.UUID | None = None


class Again(BaseModel):
    """What of a job is run again: what has no result, or all of it."""

    all: bool = False


class Done(_Shown):
    """What became of a job."""

    job_id: uuid.UUID
    status: Status


_FORM = {
    "type": "object",
    "properties": {
        "zip_file": {"type": "string", "format": "binary"},
        "images": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "references": {"type": "string", "format": "binary"},
        **{name: {"type": "string"} for name in job_intake.FIELDS},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _FORM},
            "application/json": {"schema": job_intake.Said.model_json_schema()},
        },
    }
}

router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=callers.guards(NAME),
    responses=answers.documented(400, 401, 403, 429, 503),
)
_one = APIRouter(
    prefix="/{job_id}", responses=answers.documented(404), route_class=small_bodies.Route
)


@router.post(
    "",
    status_code=202,
    openapi_extra=_BODY,
    responses=answers.documented(408, 409, 413, 507),
)
async def submit(
    request: Request, response: Response, caller: callers.Caller, used: services.Used
) -> Accepted:
    """Have the text of pictures checked.

    Send a form with zip_file (pictures, and their strings as .txt files of the same name, as
    references.json or references.csv) or with images, or JSON with pictures in base64.
    """
    done = await job_intake.take_in(request, used, callers.database_of(caller, used))
    url = services.address_of(request, used, "check_job_status", job_id=done.job_id)
    response.headers["Location"] = url
    return Accepted(job_id=uuid.UUID(done.job_id), status_url=url, existing=done.existing)


@router.get("", name="check_jobs")
async def listed(
    wanted: Annotated[Listing, Query()], caller: callers.Caller, used: services.Used
) -> list[Head]:
    """List your jobs, the newest first."""
    params = wanted.model_dump(mode="json", exclude_none=True)
    found = await callers.database_of(caller, used).list_check_jobs(**params)
    return [Head.model_validate(job) for job in found]


@_one.get("", name="check_job_status")
async def status(job_id: uuid.UUID, caller: callers.Caller, used: services.Used) -> Job:
    """Say how far a job is, with the results so far; ask as often as you like."""
    return Job.model_validate(await _find(caller, used, job_id))


@_one.get(
    "/report",
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in reports.MEDIA_TYPES.values()}}},
)
async def report(
    job_id: uuid.UUID,
    caller: callers.Caller,
    used: services.Used,
    format: Annotated[reports.Format, Query()] = reports.Format.HTML,  # noqa: A002  # its name in the query
) -> Response:
    """Download a report: a page to look at, a table for spreadsheets, or JSON."""
    job = await _find(caller, used, job_id)
    headers = {
        "Content-Disposition": f'inline; filename="check-{job_id}.{format}"',
        # It shows what was read in strangers' pictures: whatever that is, it does nothing.
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(
        reports.write(job, format), media_type=reports.MEDIA_TYPES[format], headers=headers
    )


@_one.delete("", responses=answers.documented(409))
async def cancel(job_id: uuid.UUID, caller: callers.Caller, used: services.Used) -> Done:
    """End a job at once; results so far stay."""
    database = callers.database_of(caller, used)
    return await _change(caller, used, job_id, database.cancel_check_job(job_id=str(job_id)))


@_one.post("/rerun", status_code=202, responses=answers.documented(408, 409, 413))
async def rerun(
    job_id: uuid.UUID, caller: callers.Caller, used: services.Used, again: Again | None = None
) -> Done:
    """Read what has no result yet of a job that has ended, or all of it once more."""
    database = callers.database_of(caller, used)
    change = database.rerun_check_job(job_id=str(job_id), all=(again or Again()).all)
    return await _change(caller, used, job_id, change)


async def _change(
    caller: callers.Caller,
    used: services.Services,
    job_id: uuid.UUID,
    change: Awaitable[rows.CheckJobChange],
) -> Done:
    try:
        answer = answers.require_success(await change)
    except errors.Forbidden:
        await _find(caller, used, job_id)  # whoever cannot see it is told that it is not there
        raise
    return Done.model_validate(answer)


async def _find(
    caller: callers.Caller, used: services.Services, job_id: uuid.UUID
) -> rows.CheckJobDetails:
    database = callers.database_of(caller, used)
    missing = answers.RefusedError(404, "JOB_NOT_FOUND", "there is no such job, or no longer")
    try:
        job = (await database.check_job(job_id=str(job_id)))["job"]
    except errors.Forbidden as exc:
        raise missing from exc
    if job is None:
        raise missing
    return job


router.include_router(_one)
