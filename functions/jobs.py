"""`jobs`: submit check jobs, get their status and reports, cancel and rerun them."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pagewarden import services
from pagewarden.checks.report import MEDIA_TYPES, ReportFormat, render
from pagewarden.database import rows
from pagewarden.errors import Forbidden, RequestRejected
from pagewarden.functions.http import authentication, errors
from pagewarden.services import Services
from pagewarden.web import job_form, request_body

NAME = "jobs"

Status = Literal["PENDING", "PROCESSING", "SUCCEEDED", "FAILED", "CANCELLED"]


class _CamelModel(BaseModel):
    """Has camelCase names in JSON: jobId."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class AcceptedJob(_CamelModel):
    """A queued job."""

    job_id: uuid.UUID
    status_url: str = Field(description="URL of the job's status.")
    existing: bool = Field(
        description="Whether the job had already been submitted with this idempotency key."
    )


class Issue(BaseModel):
    """A problem found in a picture; quad has the corners of its location in pixels."""

    kind: str
    severity: Literal["error", "warning", "note"]
    message: str
    quad: list[list[float]] | None = None
    expected: str | None = None
    found: str | None = None
    diff: list[dict[str, str]] = []


class Result(_CamelModel):
    """Result of a picture; without a verdict it has not been checked yet."""

    image: str
    position: int
    document_id: uuid.UUID
    reference: list[str] | None
    extracted_text: str | None
    language_checked: bool | None = Field(description="Whether the text's language was checked.")
    match: bool | None = Field(
        description="Whether the picture has all expected strings and no other text."
    )
    verdict: Literal["PASS", "MANUAL"] | None
    issues: list[Issue] | None
    strings: list[dict[str, str]] | None = Field(description="Verdict on each expected string.")
    width: int | None
    height: int | None
    decision: Literal["accepted", "rejected"] | None = Field(description="A reviewer's decision.")
    error: str | None = Field(description="Why the picture could not be read.")


class JobSummary(_CamelModel):
    """Status and counts of a job."""

    job_id: uuid.UUID
    name: str
    status: Status
    language: str | None
    language_checked: bool = Field(description="Whether the language of the text is checked.")
    run: int = Field(description="Number of runs.")
    error: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    images: int
    checked: int
    manual: int
    undecided: int = Field(description="Number of MANUAL results not yet accepted or rejected.")
    passed: int = Field(alias="pass")


class Job(JobSummary):
    """A job with its results so far."""

    results: list[Result]


class JobFilter(BaseModel):
    """Filter and page of a job list; before and before_id are those of the previous page's end."""

    status: Status | None = None
    limit: int = Field(default=50, ge=1, le=200)
    before: datetime | None = None
    before_id: uuid.UUID | None = None


class RerunOptions(BaseModel):
    """Pictures to run again: those without a result, or all."""

    all: bool = False


class JobStatus(_CamelModel):
    """Status of a job after a change."""

    job_id: uuid.UUID
    status: Status


_FORM = {
    "type": "object",
    "properties": {
        "zip_file": {"type": "string", "format": "binary"},
        "images": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "references": {"type": "string", "format": "binary"},
        **{name: {"type": "string"} for name in job_form.FIELDS},
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _FORM},
            "application/json": {"schema": job_form.JobFields.model_json_schema()},
        },
    }
}

router = APIRouter(
    prefix=f"/{NAME}",
    tags=[NAME],
    dependencies=authentication.require_access(NAME),
    responses=errors.error_responses(400, 401, 403, 429, 503),
)
_job_router = APIRouter(
    prefix="/{job_id}",
    responses=errors.error_responses(404),
    route_class=request_body.BodyLimitRoute,
)


@router.post(
    "",
    status_code=202,
    openapi_extra=_BODY,
    responses=errors.error_responses(408, 409, 413, 507),
)
async def submit(
    request: Request, response: Response, caller: authentication.Caller, services: services.Current
) -> AcceptedJob:
    """Submit pictures whose text is to be checked.

    Send a form with `zip_file` (pictures, and their expected strings as .txt files of the same
    name, as references.json or references.csv) or with `images`, or JSON with pictures in base64.
    """
    database = authentication.database_for(caller, services)
    job = await job_form.submit_job(request, services.check_jobs, database)
    # As the caller has addressed the jobs: /jobs, or the function of this name.
    url = f"{services.public_base(request)}{request.url.path.rstrip('/')}/{job.job_id}"
    response.headers["Location"] = url
    return AcceptedJob(job_id=uuid.UUID(job.job_id), status_url=url, existing=job.existing)


@router.get("", name="check_jobs")
async def list_jobs(
    query: Annotated[JobFilter, Query()], caller: authentication.Caller, services: services.Current
) -> list[JobSummary]:
    """List your jobs, newest first."""
    params = query.model_dump(mode="json", exclude_none=True)
    jobs = await authentication.database_for(caller, services).list_check_jobs(**params)
    return [JobSummary.model_validate(job) for job in jobs]


@_job_router.get("", name="check_job_status")
async def status(
    job_id: uuid.UUID, caller: authentication.Caller, services: services.Current
) -> Job:
    """Return the status of a job and its results so far."""
    return Job.model_validate(await _find(caller, services, job_id))


@_job_router.get(
    "/report",
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}},
)
async def report(
    job_id: uuid.UUID,
    caller: authentication.Caller,
    services: services.Current,
    format: Annotated[ReportFormat, Query()] = ReportFormat.HTML,  # noqa: A002  # its name in the query
) -> Response:
    """Download a job report as HTML, CSV or JSON."""
    job = await _find(caller, services, job_id)
    headers = {
        "Content-Disposition": f'inline; filename="check-{job_id}.{format}"',
        # The report has text read in untrusted pictures: no scripts, forms or requests.
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(render(job, format), media_type=MEDIA_TYPES[format], headers=headers)


@_job_router.delete("", responses=errors.error_responses(409))
async def cancel(
    job_id: uuid.UUID, caller: authentication.Caller, services: services.Current
) -> JobStatus:
    """Cancel a job immediately; its results so far are kept."""
    database = authentication.database_for(caller, services)
    return await _change(caller, services, job_id, database.cancel_check_job(job_id=str(job_id)))


@_job_router.post("/rerun", status_code=202, responses=errors.error_responses(408, 409, 413))
async def rerun(
    job_id: uuid.UUID,
    caller: authentication.Caller,
    services: services.Current,
    options: RerunOptions | None = None,
) -> JobStatus:
    """Rerun the pictures of an ended job that have no result, or all of them."""
    database = authentication.database_for(caller, services)
    change = database.rerun_check_job(job_id=str(job_id), all=(options or RerunOptions()).all)
    return await _change(caller, services, job_id, change)


async def _change(
    caller: authentication.Caller,
    services: Services,
    job_id: uuid.UUID,
    change: Awaitable[rows.CheckJobChange],
) -> JobStatus:
    try:
        answer = errors.require_success(await change)
    except Forbidden:
        await _find(caller, services, job_id)  # 404 for a job that the caller cannot see
        raise
    return JobStatus.model_validate(answer)


async def _find(
    caller: authentication.Caller, services: Services, job_id: uuid.UUID
) -> rows.CheckJobDetails:
    database = authentication.database_for(caller, services)
    missing = RequestRejected("JOB_NOT_FOUND", "the job does not exist or has been deleted")
    try:
        job = (await database.check_job(job_id=str(job_id)))["job"]
    except Forbidden as exc:
        raise missing from exc
    if job is None:
        raise missing
    return job


router.include_router(_job_router)
