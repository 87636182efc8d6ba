"""One volume of a job: attempts, reruns, list of pages with failed ones first, and downloads."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from pagewarden import errors, services
from pagewarden.dashboard import csrf, flash, lists, rendering, review_form, route, sessions
from pagewarden.dashboard.pages.volumes import access, job
from pagewarden.database import answers, rows, tables
from pagewarden.services import Services
from pagewarden.storage import paths, scratch
from pagewarden.volumes import artifact_keys, stages

if TYPE_CHECKING:
    from pagewarden.volumes import exports, page_view

PAGES = 100

# Longer numbers are no page numbers.
_DIGITS = 9


class PageStatusFilter(enum.StrEnum):
    """Which pages to show; empty for all."""

    ALL = ""
    FAILED = "failed"
    UNREAD = "unread"
    UNCERTAIN = "uncertain"


class PageFilter(lists.ListFilter):
    """Filters of the list of pages: state, and part of the name."""

    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    show: PageStatusFilter = PageStatusFilter.ALL
    find: str = ""

    @property
    def search(self) -> str:
        """Return the search text without surrounding whitespace."""
        return self.find.strip()


def page_url(ref: access.JobVolume, page: page_view.ListedPage) -> str:
    """Return the URL of a page."""
    return f"{ref.url}/pages/{quote(page.image_name)}"


async def find_page(
    services: Services, ref: access.JobVolume, filters: PageFilter
) -> page_view.ListedPage | None:
    """Return the page that the search identifies; None if ambiguous or unavailable."""
    if not filters.search:
        return None
    try:
        pages = await (await services.volumes.get()).list_pages(ref.volume_version)
    except errors.PagewardenError:
        return None  # the list shows the reason
    found = _match_page(pages, filters)
    return found if found and paths.is_path(found.image_name) else None


async def list_pages(
    services: Services, ref: access.JobVolume, filters: PageFilter
) -> dict[str, Any]:
    """Return the pages to show, or why they cannot be shown."""
    defaults: dict[str, Any] = {
        "pages": [], "figures": {}, "all_pages": 0, "failed_pages": 0, "matching": 0, "last": 1,
        "why_none": "", "is_linked": paths.is_path, "shows": list(PageStatusFilter),
    }  # fmt: skip
    try:
        volume_pages, volume_version = await services.volumes.get(), ref.volume_version
        all_pages = await volume_pages.list_pages(volume_version)
        matching = [
            page for page in all_pages if filters.search.casefold() in page.image_name.casefold()
        ]
        if filters.show in {PageStatusFilter.UNREAD, PageStatusFilter.UNCERTAIN}:
            figures = await volume_pages.count_lines(volume_version, _list_readable_pages(matching))
            matching = [page for page in matching if _matches_filter(filters.show, page, figures)]
        elif filters.show:
            matching = [page for page in matching if page.error]
        matching.sort(key=lambda page: page.error is None)
        pages = matching[PAGES * (filters.page - 1) : PAGES * filters.page]
        figures = await volume_pages.count_lines(volume_version, _list_readable_pages(pages))
    except errors.PagewardenError as exc:
        return defaults | {"why_none": str(exc)}
    return defaults | {
        "pages": pages,
        "figures": figures,
        "all_pages": len(all_pages),
        "failed_pages": sum(page.error is not None for page in all_pages),
        "matching": len(matching),
        "last": max(-(-len(matching) // PAGES), 1),
    }


def _match_page(
    pages: Sequence[page_view.ListedPage], filters: PageFilter
) -> page_view.ListedPage | None:
    search = filters.search
    for page in pages:
        if page.image_name == search:
            return page
    if search.isdecimal() and len(search) <= _DIGITS and 0 < int(search) <= len(pages):
        return pages[int(search) - 1]
    partial = [page for page in pages if search.casefold() in page.image_name.casefold()]
    exact = [page for page in partial if page.image_name.casefold() == search.casefold()]
    found = exact or ([] if filters.show else partial)
    return found[0] if len(found) == 1 else None


def _list_readable_pages(pages: Sequence[page_view.ListedPage]) -> list[str]:
    return [page.image_name for page in pages if page.error is None]


def _matches_filter(
    show: PageStatusFilter,
    page: page_view.ListedPage,
    figures: Mapping[str, page_view.PageStatistics],
) -> bool:
    counts = figures.get(page.image_name)
    if counts is None:
        return False
    if show is PageStatusFilter.UNREAD:
        return bool(counts.lines) and counts.read == 0
    return (
        counts.confidence is not None
        and review_form.get_confidence_level(counts.confidence) != "sure"
    )


files_router = APIRouter(
    prefix=f"{access.PATH}/{{job_key}}/{{volume}}/files",
    route_class=route.Route,
    include_in_schema=False,
)


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """A downloadable file; `is_old` if it is from an earlier run."""

    kind: str
    name: str
    url: str
    size: int
    is_old: bool


async def list_files(services: Services, ref: access.JobVolume) -> dict[str, Any]:
    """Return the downloadable files, or why they cannot be listed."""
    try:
        found = await (await services.volumes.get()).list_files(ref.volume_version)
    except errors.PagewardenError as exc:
        return {"files": [], "why_no_files": str(exc), "has_text": False}
    files = [_to_volume_file(ref, file) for file in found]
    has_text = any(file.kind == "txt" for file in files)
    return {"files": files, "why_no_files": "", "has_text": has_text}


def _to_volume_file(ref: access.JobVolume, found: exports.StoredFile) -> VolumeFile:
    file = found.file
    url = f"{ref.url}/files/{quote(file.name)}"
    is_requested = file.stage != "reduce" or file.kind in artifact_keys.list_requested_files(
        ref.job["config"]
    )
    is_old = not (is_requested and _has_completed(ref.task, file.stage))
    return VolumeFile(file.kind, file.name, url, found.size, is_old)


def _has_completed(task: rows.VolumeTasks, stage: str) -> bool:
    order = ("pending", *stages.STAGES, "done")
    reached, number = order.index(task["current_stage"]), order.index(stage)
    return reached > number or (reached == number and task["status"] == "done")


async def _copy_file(
    services: services.Current, ref: access.Volume, name: str
) -> AsyncIterator[scratch.LocalCopy]:
    """Copy a file and delete the copy once it has been sent; names are from a fixed set."""
    volume_pages = await services.volumes.get()
    try:
        async with volume_pages.open_file(ref.volume_version, name) as copy:
            yield copy
    except errors.FileNotFound as exc:
        raise HTTPException(404, "the file does not exist") from exc
    except errors.PagewardenError as exc:
        raise HTTPException(503, str(exc)) from exc


@files_router.get("/{name:path}")
async def download(copy: Annotated[scratch.LocalCopy, Depends(_copy_file)]) -> Response:
    """Stream a file from disk."""
    return FileResponse(copy.path, media_type=copy.media_type, filename=copy.name)


router = APIRouter(
    prefix=f"{access.PATH}/{{job_key}}/{{volume}}",
    route_class=route.Route,
    include_in_schema=False,
)

_MAX_ATTEMPTS = 50


@router.get("")
async def show_volume(
    request: Request,
    user: sessions.SignedIn,
    services: services.Current,
    ref: access.Volume,
    filters: Annotated[PageFilter, Query()],
) -> Response:
    """Show a volume, or redirect to the page searched for; htmx reloads a running volume."""
    is_fragment = request.headers.get("HX-Target") == "volume"
    if not is_fragment and (page := await find_page(services, ref, filters)):
        return RedirectResponse(page_url(ref, page), 303)
    attempts = await user.database.volume_history(task_id=ref.task["id"], limit=_MAX_ATTEMPTS)
    results = await user.database.select(tables.volume_results, where={"task_id": ref.task["id"]})
    return rendering.render_page(
        request,
        "volume.html",
        is_fragment=is_fragment,
        volume=ref,
        task=ref.task,
        attempts=[{**attempt, "seconds": _get_duration(attempt)} for attempt in attempts],
        result=results[0] if results else None,
        rerunnable=_list_rerunnable(ref.task),
        is_open=ref.job["status"] == "running" and not _has_ended(ref.task),
        **await list_files(services, ref),
        filters=filters,
        **await list_pages(services, ref, filters),
    )


@router.post("/rerun")
async def rerun(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    ref: access.Volume,
    stage: Annotated[job.Stage | None, Form()] = None,
) -> Response:
    """Rerun a stage of this volume, or the failed one."""
    answer = await user.database.rerun_volumes(
        job_id=ref.job["id"], stage=stage, task_ids=[ref.task["id"]]
    )
    if not answer["success"]:
        return flash.redirect_with_answer(ref.url, answer, "")
    number, skipped = (
        answers.require_field(answer["rerun"]),
        answers.require_field(answer["skipped"]),
    )
    return job.redirect_with_rerun(ref.url, number, skipped, stage)


def _get_duration(attempt: rows.VolumeRuns) -> float | None:
    """Return the duration of an attempt in seconds; None if it is in progress."""
    if attempt["ended_at"] is None:
        return None
    started_at = dt.datetime.fromisoformat(attempt["started_at"])
    return (dt.datetime.fromisoformat(attempt["ended_at"]) - started_at).total_seconds()


def _has_ended(task: rows.VolumeTasks) -> bool:
    failed = task["status"] == "failed" and task["attempts"] >= task["max_attempts"]
    return failed or task["current_stage"] == "done"


def _list_rerunnable(task: rows.VolumeTasks) -> list[str]:
    """List the stages that can be rerun: those reached, and the next one."""
    order = ("pending", *stages.STAGES, "done")
    reached = order.index(task["current_stage"])
    if task["status"] in {"pending", "done"}:
        reached += 1
    return [stage for stage in stages.STAGES if order.index(stage) <= reached]
