"""One page of a volume: its picture with the detected lines, beside their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from pagewarden import errors, services
from pagewarden.dashboard import rendering, review_form, route
from pagewarden.dashboard.pages.volumes import access, volume
from pagewarden.volumes import config

if TYPE_CHECKING:
    from pagewarden.volumes import page_view

router = APIRouter(
    prefix=f"{access.PATH}/{{job_key}}/{{volume}}",
    route_class=route.Route,
    include_in_schema=False,
)

MAX_LINES = 1000
"""More lines would slow down browsers."""


@dataclass(frozen=True, slots=True)
class LineView:
    """A line: SVG points of its outlines, and its level (sure, unsure, doubtful or empty).

    `frame` is the outline of the extracted image, `core` that of the detected line. `origin` and
    `source` are set for combined lines: the job of the text and how many sources agree, and the key
    of the source file.
    """

    number: int
    frame: str
    core: str
    text: str | None
    percent: int | None
    level: str
    origin: str
    source: str | None


@router.get("/pages/{image_name:path}")
async def show_page(
    request: Request, services: services.Current, ref: access.Volume, image_name: str
) -> Response:
    """Show a page, or why it cannot be shown."""
    try:
        volume_pages, volume_version = await services.volumes.get(), ref.volume_version
        pages = await volume_pages.list_pages(volume_version)
        page = await volume_pages.read_page(volume_version, image_name)
    except errors.PagewardenError as exc:
        return _render(request, ref, image_name, why_none=str(exc))
    if page is None:
        raise HTTPException(404, "the volume has no such page")
    return _render(
        request,
        ref,
        image_name,
        page=page,
        lines=[
            _make_line(ref, number, line) for number, line in enumerate(page.lines[:MAX_LINES], 1)
        ],
        count=len(pages),
        **_link_pages(ref, pages, page.listed),
    )


@router.get("/pictures/{image_name:path}")
async def show_picture(services: services.Current, ref: access.Volume, image_name: str) -> Response:
    """Send the rotated image; the name is only used to look up its storage key."""
    try:
        volume_pages, volume_version = await services.volumes.get(), ref.volume_version
        data = await volume_pages.fetch_rotated_image(volume_version, image_name)
    except errors.FileNotFound as exc:
        raise HTTPException(404, str(exc)) from exc
    except errors.PagewardenError as exc:
        raise HTTPException(503, str(exc)) from exc
    if data is None:
        raise HTTPException(404, "the page has no image")
    headers = {"Cache-Control": "private, max-age=300"}
    return Response(data, media_type="image/jpeg", headers=headers)


def _render(
    request: Request,
    ref: access.JobVolume,
    image_name: str,
    **values: Any,  # noqa: ANN401  # values of the template
) -> Response:
    defaults: dict[str, Any] = {"page": None, "lines": [], "count": 0, "why_none": ""}
    links = {"before": None, "after": None, "failed": None}
    return rendering.render_page(
        request,
        "volume_page.html",
        volume=ref,
        image_name=image_name,
        max_lines=MAX_LINES,
        **(defaults | links | values),
    )


def _make_line(ref: access.JobVolume, number: int, line: page_view.Line) -> LineView:
    # Rounded down, so that 100 % means certain.
    percent = int(100 * line.confidence) if line.confidence is not None and line.text else None
    return LineView(
        number,
        _format_points(line.corners or line.core),
        _format_points(line.core),
        line.text,
        percent,
        _get_level(line),
        _describe_origin(ref, line),
        line.source,
    )


def _get_level(line: page_view.Line) -> str:
    if line.confidence is None or not line.text:
        return "empty" if line.text == "" else "sure"
    return review_form.get_confidence_level(line.confidence)


def _describe_origin(ref: access.JobVolume, line: page_view.Line) -> str:
    if line.source is None:
        return ""
    own, templates = ref.volume_version.keys.ocr_results, ref.job["config"].get("sources", ())
    # A source that is listed twice, or is this volume, counts once.
    sources = {
        own,
        *(config.fill_in_source(key, w_id=ref.w_id, i_id=ref.i_id) for key in templates),
    }
    name = "this job" if line.source == own else access.parse_job_key(line.source) or line.source
    return f"{name}, {line.agreeing} of {len(sources)} agree"


def _format_points(outline: Sequence[Sequence[float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)


def _link_pages(
    ref: access.JobVolume, pages: Sequence[page_view.ListedPage], shown: page_view.ListedPage
) -> dict[str, Any]:
    """Return the URLs of the previous, next and next failed page; the last wraps around."""
    index = shown.number - 1
    failed = [page for page in (*pages[index + 1 :], *pages[:index]) if page.error]

    def make_url(page: page_view.ListedPage | None) -> str | None:
        return volume.page_url(ref, page) if page else None

    return {
        "before": make_url(pages[index - 1] if index else None),
        "after": make_url(pages[index + 1] if index + 1 < len(pages) else None),
        "failed": make_url(failed[0] if failed else None),
    }
