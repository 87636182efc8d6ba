"""Volume jobs: the list, and forms for the settings of new jobs and of reruns."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import structlog
from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import BaseModel, Field

from pagewarden import errors
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.dashboard.pages.volumes import access
from pagewarden.database import rows
from pagewarden.volumes import config, jobs


def _list_choices(key: str) -> Sequence[str]:
    """Return the allowed values of a config key, or of its items."""
    annotation: Any = config.VolumeConfig.model_fields[key].annotation
    while not isinstance(get_args(annotation)[0], str):
        annotation = get_args(annotation)[0]
    return get_args(annotation)


CHOICES = {key: _list_choices(key) for key in ("profile", "encoding", "line_mode", "exports")}

YesNo = Literal["", "true", "false"]


class JobSettings(BaseModel):
    """Settings of a new job; empty ones take their default."""

    engine: str = ""
    profile: str = ""
    language: str = ""
    encoding: str = ""
    line_mode: str = ""
    use_tps: bool = False
    merge_lines: bool = False
    failed_pages_allowed: str = ""
    sources: str = ""
    exports: list[str] = Field(default_factory=list)

    def make_config(self) -> dict[str, Any]:
        """Return the config; raise SettingsError if a number is invalid."""
        plain = {
            name for name in JobSettings.model_fields if name in config.VolumeConfig.model_fields
        }
        values = self.model_dump(include=plain) | {
            "failed_pages_allowed": _parse_number(self.failed_pages_allowed),
            "sources": self.sources.split(),
            "reducer": "combine" if self.sources.split() else "",
        }
        # 0.0 is a valid share, not an empty setting.
        return {key: value for key, value in values.items() if value or isinstance(value, float)}

    @property
    def has_rare_settings(self) -> bool:
        """Tell whether any of the rarely used settings is set."""
        rare = ("profile", "encoding", "line_mode", "merge_lines", "failed_pages_allowed")
        return any(getattr(self, name) for name in (*rare, "sources"))


class SettingsChanges(BaseModel):
    """Changes to the settings of a job when a stage is rerun.

    Missing or empty settings stay unchanged. Language and exports start with an empty value, so
    that they can be removed: forms with one empty field are parsed as if it were missing.
    """

    engine: str = ""
    profile: str = ""
    encoding: str = ""
    language: list[str] = Field(default_factory=list)
    use_tps: YesNo = ""
    merge_lines: YesNo = ""
    exports: list[str] = Field(default_factory=list)

    def make_config(self, old: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys that differ from the current config of the job."""
        values = {name: getattr(self, name) for name in ("engine", "profile", "encoding")}
        values |= {name: getattr(self, name) == "true" for name in self._list_answered_flags()}
        changes = {key: value for key, value in values.items() if value not in ("", old.get(key))}
        if self.language and self.language[-1] != old.get("language", ""):
            changes["language"] = self.language[-1]
        exports = [form for form in self.exports if form]
        if self.exports and set(exports) != set(old.get("exports", ())):
            changes["exports"] = exports
        return changes

    def _list_answered_flags(self) -> list[str]:
        return [name for name in ("use_tps", "merge_lines") if getattr(self, name)]


def _parse_number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError as exc:
        raise errors.SettingsError(f"failed_pages_allowed: {text!r} is not a number") from exc


PAGE = route.Page("Volumes", access.PATH)

router = APIRouter(prefix=PAGE.path, include_in_schema=False)

ROWS = 50
_MAX_PEOPLE = 200


class Status(enum.StrEnum):
    """The status of a job; empty for any."""

    ANY = ""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Filter(lists.ListFilter):
    """Filters of the list; before and before_id are those of the last row of the previous page."""

    path = PAGE.path

    status: Status = Status.ANY
    before: str = ""
    before_id: int | None = None


class JobForm(JobSettings):
    """The form of a new job, with one volume per line."""

    job_key: str = ""
    volumes: str = ""

    def parse_volumes(self) -> list[jobs.VolumeName]:
        """Return the volumes; raise SettingsError if there are none or a name is invalid."""
        found = [jobs.VolumeName.parse(name) for name in self.volumes.split()]
        if not found:
            raise errors.SettingsError("enter at least one volume, such as W22084-I0886")
        return found


async def show_list(
    request: Request, user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> Response:
    """Show matching jobs; htmx reloads them while any is running."""
    return await _render_list(request, user, filters)


async def create_job(
    request: Request,
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    form: Annotated[JobForm, Form()],
) -> Response:
    """Create a job and redirect to it, or show the form again with the problem."""
    try:
        job = await jobs.JobRepository(user.database).create(
            form.parse_volumes(), job_key=form.job_key.strip() or None, config=form.make_config()
        )
    except (errors.SettingsError, errors.InvalidArgument, errors.Forbidden) as exc:
        return await _render_list(request, user, Filter(), form, str(exc))
    structlog.contextvars.bind_contextvars(job=job.job_key)
    message = f"Job created: {flash.format_count(job.volumes, 'volume')}."
    return flash.redirect_with_notice(access.job_url(job.job_key), message)


router.add_api_route("", show_list, route_class_override=route.Route)
router.add_api_route("", create_job, methods=["POST"], route_class_override=route.LargeFormRoute)


async def _render_list(
    request: Request,
    user: sessions.CurrentUser,
    filters: Filter,
    form: JobForm | None = None,
    problem: str = "",
) -> Response:
    return rendering.render_page(
        request,
        "volumes.html",
        400 if problem else 200,
        is_fragment=request.headers.get("HX-Target") == "results",
        filters=filters,
        statuses={status.value: status.value for status in Status if status},
        form=form or JobForm(),
        problem=problem,
        choices=CHOICES,
        **await _read_page(user, filters),
    )


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    found = await user.database.list_volume_jobs(
        status=filters.status or None,
        before=filters.before or None,
        before_id=filters.before_id or None,
        limit=ROWS + 1,
    )

    def make_next_url(last: rows.ListedVolumeJob) -> str:
        return filters.url(before=last["created_at"], before_id=last["job_id"])

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    return {
        "rows": shown,
        "next_url": next_url,
        "people": await _find_owners(user, shown),
        "is_open": any(row["status"] == Status.RUNNING for row in shown),
    }


async def _find_owners(
    user: sessions.CurrentUser, shown: Sequence[rows.ListedVolumeJob]
) -> dict[str, str]:
    """Return the e-mail addresses of the owners; only HAC sees those of others."""
    owners = {row["owner_id"] for row in shown}
    known = {str(user.caller.user_id): "you"}
    if user.is_admin and owners - {None, user.caller.user_id}:
        found = await user.database.list_people(limit=_MAX_PEOPLE)
        known = {row["user_id"]: row["email"] for row in found} | known
    return known
