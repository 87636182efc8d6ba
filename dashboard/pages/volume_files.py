"""Files of a volume: what stages have published of it, to be downloaded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

from dashboard import books, parts, route
from pagewarden import errors
from pagewarden.database import rows
from pagewarden.volumes import editions, stages

if TYPE_CHECKING:
    from pagewarden.volumes import downloads

router = APIRouter(
    prefix=f"{books.PATH}/{{job_key}}/{{volume}}/files",
    route_class=route.Route,
    include_in_schema=False,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A file as it is shown; is_old where the next turns will replace or leave it."""

    kind: str
    name: str
    address: str
    size: int
    is_old: bool


async def shown(used: parts.Parts, book: books.Book) -> dict[str, Any]:
    """Give what can be downloaded, or say why nothing can."""
    try:
        found = await (await used.volumes.get()).downloadable(book.edition)
    except errors.PagewardenError as exc:
        return {"files": [], "why_no_files": str(exc), "has_text": False}
    files = [_shown(book, each) for each in found]
    has_text = any(file.kind == "txt" for file in files)
    return {"files": files, "why_no_files": "", "has_text": has_text}


def _shown(book: books.Book, found: downloads.Found) -> Shown:
    file = found.file
    address = f"{book.address}/files/{quote(file.name)}"
    is_wanted = file.stage != "reduce" or file.kind in editions.asked(book.job["config"])
    is_old = not (is_wanted and _is_past(book.task, file.stage))
    return Shown(file.kind, file.name, address, found.size, is_old)


def _is_past(task: rows.VolumeTasks, stage: str) -> bool:
    order = ("pending", *stages.STAGES, "done")
    reached, number = order.index(task["current_stage"]), order.index(stage)
    return reached > number or (reached == number and task["status"] == "done")


async def _copied(used: parts.Used, book: books.Seen, name: str) -> AsyncIterator[parts.Made]:
    """Keep the copy until it is sent; the name only finds one of a fixed set."""
    looked = await used.volumes.get()
    try:
        async with looked.download(book.edition, name) as copy:
            yield copy
    except errors.FileNotThere as exc:
        raise HTTPException(404, "this file is not there, or no longer") from exc
    except errors.PagewardenError as exc:
        raise HTTPException(503, str(exc)) from exc


@router.get("/{name:path}")
async def download(copy: Annotated[parts.Made, Depends(_copied)]) -> Response:
    """Hand out a file, piece by piece from the disk."""
    return FileResponse(copy.path, media_type=copy.media_type, filename=copy.name)
