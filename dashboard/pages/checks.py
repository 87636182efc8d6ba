"""Checks: jobs of the localization checker, and new ones by dropping files."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from dashboard import forgery, lists, navigation, notices, parts, rendering, route, visitors
from pagewarden.checks import languages

PAGE = navigation.Page("Checks", "/checks")

router = APIRouter(prefix=PAGE.path, include_in_schema=False)

ROWS = 50
UNDER_WAY = {"PENDING", "PROCESSING"}
LANGUAGES = {
    language.code: f"{language.name} ({language.code})"
    for language in sorted(languages.LANGUAGES.values(), key=lambda language: language.name)
}


class Status(enum.StrEnum):
    """How far a job can be; empty for any."""

    ANY = ""
    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Filter(lists.Filter):
    """What of the list is wanted; before and before_id say where the last page ended."""

    path = PAGE.path

    status: Status = Status.ANY
    everybody: bool = False
    before: str = ""
    before_id: str = ""

    def params(self) -> dict[str, Any]:
        """Give the arguments of list_check_jobs; what is empty does not count."""
        given = {
            "status": self.status, "before": self.before, "before_id": self.before_id,
        }  # fmt: skip
        wanted = {name: value for name, value in given.items() if value}
        return wanted | {"everybody": self.everybody}


async def listed(
    request: Request,
    visitor: visitors.Signed,
    used: parts.Used,
    chosen: Annotated[Filter, Query()],
) -> Response:
    """Show the jobs that match; while some are under way, the page asks for them again."""
    return rendering.page(
        request,
        "checks.html",
        part=request.headers.get("HX-Target") == "results",
        chosen=chosen,
        statuses={status.value: status.lower() for status in Status if status},
        languages=LANGUAGES,
        limits=used.jobs.limits,
        default_language=used.jobs.default_language,
        **await _rows(visitor, chosen),
    )


async def submit(request: Request, visitor: visitors.Signed, used: parts.Used) -> Response:
    """Take in a job, and lead to it; or say everything that is wrong."""
    guard = forgery.guard(request, used, visitor)
    try:
        job_id = await used.jobs.take_in(request, visitor.database, guard)
    except parts.NotTakenError as exc:
        return _refused(request, exc)
    if route.is_script(request):
        return JSONResponse({"location": address(job_id)})
    return notices.after(address(job_id), "The pictures are in the queue.")


router.add_api_route("", listed, route_class_override=route.Route)
router.add_api_route(
    "",
    submit,
    methods=["POST"],
    dependencies=[forgery.OWN_ORIGIN],
    route_class_override=route.Taking,
)


def address(job_id: object) -> str:
    """Write the address of a job."""
    return f"{PAGE.path}/{job_id}"


def _refused(request: Request, exc: parts.NotTakenError) -> Response:
    if route.is_script(request):
        problems = [{"problem": one.problem, "image": one.image} for one in exc.problems]
        return JSONResponse({"message": str(exc), "problems": problems}, 400)
    return rendering.page(request, "check_refused.html", 400, problems=exc.problems)


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    rows = await visitor.database.list_check_jobs(**chosen.params(), limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return chosen.address(before=last["createdAt"], before_id=last["jobId"])

    shown, more = lists.cut(rows, ROWS, after)
    return {
        "rows": shown,
        "more": more,
        "is_open": any(row["status"] in UNDER_WAY for row in shown),
    }
