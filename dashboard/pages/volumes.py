"""Volumes: jobs that have books read stage by stage, and new ones."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import (
    books,
    forgery,
    lists,
    navigation,
    notices,
    outcomes,
    recipes,
    rendering,
    route,
    visitors,
)
from pagewarden import errors
from pagewarden.database import rows
from pagewarden.volumes import jobs

PAGE = navigation.Page("Volumes", books.PATH)

router = APIRouter(prefix=PAGE.path, include_in_schema=False)

ROWS = 50
_PEOPLE = 200


class Status(enum.StrEnum):
    """How far a job can be; empty for any."""

    ANY = ""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Filter(lists.Filter):
    """What of the list is wanted; before and before_id say where the last page ended."""

    path = PAGE.path

    status: Status = Status.ANY
    before: str = ""
    before_id: int | None = None


class Order(recipes.Wanted):
    """What the form of a new job says; volumes are named one on a line."""

    job_key: str = ""
    volumes: str = ""

    def names(self) -> list[jobs.Name]:
        """Give the volumes; SettingsError where there are none, or what is named is no volume."""
        found = [jobs.Name.parse(name) for name in self.volumes.split()]
        if not found:
            raise errors.SettingsError("name at least one volume, as in W22084-I0886")
        return found


async def listed(
    request: Request, visitor: visitors.Signed, chosen: Annotated[Filter, Query()]
) -> Response:
    """Show the jobs that match; while some are under way, the page asks for them again."""
    return await _page(request, visitor, chosen)


async def order(
    request: Request,
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    given: Annotated[Order, Form()],
) -> Response:
    """Order volumes, and lead to the job; or say what is wrong, and keep what was typed."""
    try:
        made = await jobs.Jobs(visitor.database).create(
            given.names(), job_key=given.job_key.strip() or None, config=given.config()
        )
    except (errors.SettingsError, errors.InvalidCall, errors.Forbidden) as exc:
        return await _page(request, visitor, Filter(), given, str(exc))
    said = f"{outcomes.count(made.volumes, 'volume')} ordered."
    return notices.after(books.job_address(made.job_key), said)


router.add_api_route("", listed, route_class_override=route.Route)
router.add_api_route("", order, methods=["POST"], route_class_override=route.Writing)


async def _page(
    request: Request,
    visitor: visitors.Visitor,
    chosen: Filter,
    given: Order | None = None,
    problem: str = "",
) -> Response:
    return rendering.page(
        request,
        "volumes.html",
        400 if problem else 200,
        part=request.headers.get("HX-Target") == "results",
        chosen=chosen,
        statuses={status.value: status.value for status in Status if status},
        given=given or Order(),
        problem=problem,
        choices=recipes.CHOICES,
        **await _rows(visitor, chosen),
    )


async def _rows(visitor: visitors.Visitor, chosen: Filter) -> dict[str, Any]:
    found = await visitor.database.list_volume_jobs(
        status=chosen.status or None,
        before=chosen.before or None,
        before_id=chosen.before_id or None,
        limit=ROWS + 1,
    )

    def after(last: rows.ListedVolumeJob) -> str:
        return chosen.address(before=last["created_at"], before_id=last["job_id"])

    shown, more = lists.cut(found, ROWS, after)
    return {
        "rows": shown,
        "more": more,
        "people": await _people(visitor, shown),
        "is_open": any(row["status"] == Status.RUNNING for row in shown),
    }


async def _people(
    visitor: visitors.Visitor, shown: Sequence[rows.ListedVolumeJob]
) -> dict[str, str]:
    """Give addresses of those who ordered them; only HAC sees those of others."""
    owners = {row["owner_id"] for row in shown}
    known = {str(visitor.caller.user_id): "you"}
    if visitor.is_admin and owners - {None, visitor.caller.user_id}:
        found = await visitor.database.list_people(limit=_PEOPLE)
        known = {row["user_id"]: row["email"] for row in found} | known
    return known
