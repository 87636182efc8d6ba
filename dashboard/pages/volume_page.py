"""One page of a volume: its picture with the lines that were found, and their text beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from dashboard import books, leaves, parts, rendering, route, sheets
from pagewarden import errors
from pagewarden.volumes import config

if TYPE_CHECKING:
    from pagewarden.volumes import looking

router = APIRouter(
    prefix=f"{books.PATH}/{{job_key}}/{{volume}}",
    route_class=route.Route,
    include_in_schema=False,
)

MOST_LINES = 1000
"""More would make a browser slow."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A line as it is shown: points as SVG has them, level sure, unsure, doubtful or empty.

    frame is around what was cut out, core around what was detected. Of a line that was combined,
    whose is where it came from and how many agree, and source the key of that file.
    """

    number: int
    frame: str
    core: str
    text: str | None
    percent: int | None
    level: str
    whose: str
    source: str | None


@router.get("/pages/{image_name:path}")
async def one(request: Request, used: parts.Used, book: books.Seen, image_name: str) -> Response:
    """Show a page; what cannot be had of it is said."""
    try:
        looked, edition = await used.volumes.get(), book.edition
        pages = await looked.pages(edition)
        page = await looked.page(edition, image_name)
    except errors.PagewardenError as exc:
        return _page(request, book, image_name, why_none=str(exc))
    if page is None:
        raise HTTPException(404, "the volume has no such page, or no longer")
    return _page(
        request,
        book,
        image_name,
        page=page,
        lines=[
            _shown(book, number, line) for number, line in enumerate(page.lines[:MOST_LINES], 1)
        ],
        count=len(pages),
        **_ways(book, pages, page.listed),
    )


@router.get("/pictures/{image_name:path}")
async def picture(used: parts.Used, book: books.Seen, image_name: str) -> Response:
    """Hand out the rotated image; the name only finds the row that says where it is."""
    try:
        looked, edition = await used.volumes.get(), book.edition
        data = await looked.picture(edition, image_name)
    except errors.FileNotThere as exc:
        raise HTTPException(404, str(exc)) from exc
    except errors.PagewardenError as exc:
        raise HTTPException(503, str(exc)) from exc
    if data is None:
        raise HTTPException(404, "there is no picture of this page")
    headers = {"Cache-Control": "private, max-age=300"}
    return Response(data, media_type="image/jpeg", headers=headers)


def _page(
    request: Request,
    book: books.Book,
    image_name: str,
    **values: Any,  # noqa: ANN401  # whatever it shows
) -> Response:
    nothing: dict[str, Any] = {"page": None, "lines": [], "count": 0, "why_none": ""}
    ways = {"before": None, "after": None, "failed": None}
    return rendering.page(
        request,
        "volume_page.html",
        book=book,
        image_name=image_name,
        most=MOST_LINES,
        **(nothing | ways | values),
    )


def _shown(book: books.Book, number: int, line: looking.Line) -> Shown:
    # Never rounded up to what it is not.
    percent = int(100 * line.confidence) if line.confidence is not None and line.text else None
    return Shown(
        number,
        _points(line.corners or line.core),
        _points(line.core),
        line.text,
        percent,
        _level(line),
        _whose(book, line),
        line.source,
    )


def _level(line: looking.Line) -> str:
    if line.confidence is None or not line.text:
        return "empty" if line.text == "" else "sure"
    return sheets.level_of(line.confidence)


def _whose(book: books.Book, line: looking.Line) -> str:
    if line.source is None:
        return ""
    own, given = book.edition.keys.ocr_results, book.job["config"].get("sources", ())
    # One that is named twice, or is this volume itself, counts once.
    sources = {own, *(config.filled_in(key, w_id=book.w_id, i_id=book.i_id) for key in given)}
    name = "this job" if line.source == own else books.job_of(line.source) or line.source
    return f"{name}, {line.agreeing} of {len(sources)} agree"


def _points(outline: Sequence[Sequence[float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)


def _ways(
    book: books.Book, pages: Sequence[looking.Listed], shown: looking.Listed
) -> dict[str, Any]:
    """Lead to the pages before and after, and to the next that failed, around the end."""
    at = shown.number - 1
    failed = [page for page in (*pages[at + 1 :], *pages[:at]) if page.trouble]

    def way(page: looking.Listed | None) -> str | None:
        return leaves.address(book, page) if page else None

    return {
        "before": way(pages[at - 1] if at else None),
        "after": way(pages[at + 1] if at + 1 < len(pages) else None),
        "failed": way(failed[0] if failed else None),
    }
