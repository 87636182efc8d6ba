"""Documents: the list with search and uploads; one document with its text, images and exports."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Path, Query, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from pagewarden import exports, services
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.database import tables
from pagewarden.database.rows import DocumentAnswer, Documents, ListedDocument, OcrPages, PageTexts
from pagewarden.database.table import Table
from pagewarden.documents.export import export_document
from pagewarden.storage import scratch
from pagewarden.web import request_body

PAGE = route.Page("Documents", "/documents")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
HITS = 20

# Choices of the filter, where queued includes queued_for_pdf.
STATUSES = (
    "pending", "awaiting_file", "extracting", "extraction_failed", "queued", "processing",
    "completed", "dead_letter", "pending_review", "failed", "cancelled",
)  # fmt: skip


class Filter(lists.ListFilter):
    """Filters of the list; before and before_id are those of the last row of the previous page."""

    path = PAGE.path

    q: str = ""
    status: str = ""
    lane: str = ""
    case: str = ""
    bin: bool = False
    before: str = ""
    before_id: str = ""
    offset: int = 0


@router.get("")
async def show_list(
    request: Request, user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> Response:
    """Show matching documents, and pages whose text matches the search."""
    is_fragment = request.headers.get("HX-Target") == "results"
    values = {
        "filters": filters,
        **await _read_page(user, filters),
        **await _search_text(user, filters),
    }
    if not is_fragment:
        values["cases"] = await lists.list_cases(user, filters.case)
        values["lanes"] = await user.database.select(tables.lanes, columns="lane", order="lane")
    return rendering.render_page(
        request, "documents.html", is_fragment=is_fragment, statuses=STATUSES, **values
    )


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    found = await user.database.list_documents(
        case_id=filters.case or None,
        status=filters.status or None,
        lane=filters.lane or None,
        name=filters.q.strip() or None,
        deleted=filters.bin,
        before=filters.before or None,
        before_id=filters.before_id or None,
        limit=ROWS + 1,
    )

    def make_next_url(last: ListedDocument) -> str:
        return filters.url(before=last["created_at"], before_id=last["document_id"], offset=0)

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    return {"rows": shown, "next_url": next_url}


async def _search_text(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    if not filters.q.strip() or filters.bin or filters.before:
        return {"found": [], "next_found_url": None}
    found = await user.database.search_documents(
        query=filters.q.strip(),
        case_id=filters.case or None,
        limit=HITS + 1,
        offset=max(filters.offset, 0),
    )
    next_url = filters.url(offset=filters.offset + HITS) if len(found) > HITS else None
    return {"found": found[:HITS], "next_found_url": next_url}


document_router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

_PAGES_SHOWN = 20
_OPEN = {"awaiting_file", "extracting", "queued", "queued_for_pdf", "processing"}
_ENDED = {"completed", "cancelled", "failed"}
_READABLE_AGAIN = _ENDED | {"pending_review", "dead_letter"}


class Action(enum.StrEnum):
    """Actions on a document; the values are parts of paths."""

    READ_AGAIN = "read-again"
    CANCEL = "cancel"
    DELETE = "delete"
    RESTORE = "restore"
    ERASE = "erase"


_DONE = {
    Action.CANCEL: "The document was cancelled. To undo this, use “Read again”.",
    Action.DELETE: "The document was moved to the bin. To undo this, restore it.",
    Action.RESTORE: "The document was restored.",
    Action.ERASE: "The document was erased, along with its file and text.",
}


class ReadOptionsForm(BaseModel):
    """Options of a new reading run; empty ones stay unchanged."""

    engine: str = ""
    language: str = ""
    profile: str = ""

    def params(self) -> dict[str, str]:
        """Return the arguments of read_again."""
        return {name: value for name, value in self.model_dump().items() if value}


@document_router.get("/{document_id}")
async def show_document(
    request: Request, user: sessions.SignedIn, document_id: uuid.UUID, run: int | None = None
) -> Response:
    """Show a document with its progress, actions and text, or the text of an earlier run."""
    values = await _read_document(user, document_id, run)
    is_fragment = request.headers.get("HX-Target") == "document"
    return rendering.render_page(request, "document.html", is_fragment=is_fragment, **values)


@document_router.post("/{document_id}/read-again")
async def read_again(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    document_id: uuid.UUID,
    options: Annotated[ReadOptionsForm, Form()],
) -> Response:
    """Queue the document again."""
    await find_document(user, document_id)
    answer = await user.database.read_again(document_id=str(document_id), **options.params())
    return flash.redirect_with_answer(
        _document_path(document_id), answer, "The document was queued again."
    )


@document_router.post("/{document_id}/{act}")
async def apply_action(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    document_id: uuid.UUID,
    action: Annotated[Action, Path(alias="act")],
) -> Response:
    """Apply the action, and redirect to the document, or to the list if it was erased."""
    await find_document(user, document_id)
    calls: dict[Action, Callable[..., Awaitable[DocumentAnswer]]] = {
        Action.CANCEL: user.database.cancel_document,
        Action.DELETE: user.database.delete_document,
        Action.RESTORE: user.database.restore_document,
        Action.ERASE: user.database.erase_document,
    }
    answer = await calls[action](document_id=str(document_id))
    is_erased = action is Action.ERASE and answer["success"]
    path = PAGE.path if is_erased else _document_path(document_id)
    return flash.redirect_with_answer(path, answer, _DONE[action])


def _document_path(document_id: uuid.UUID) -> str:
    return f"{PAGE.path}/{document_id}"


async def _export(
    document_id: uuid.UUID, form: str, user: sessions.SignedIn, services: services.Current
) -> AsyncIterator[scratch.LocalCopy]:
    """Export the document; delete the export once it has been sent."""
    if form not in exports.FORMATS:
        raise HTTPException(404, f"unknown format: {form}")
    async with export_document(
        user.database, services.store, services.exporter, str(document_id), form
    ) as copy:
        yield copy


@document_router.get("/{document_id}/export/{form}")
async def download_export(copy: Annotated[scratch.LocalCopy, Depends(_export)]) -> Response:
    """Download the document in an export format."""
    return FileResponse(copy.path, media_type=copy.media_type, filename=copy.name)


async def find_document(user: sessions.CurrentUser, document_id: uuid.UUID) -> Documents:
    """Return a document; raise a 404 if it is missing or the user has no access."""
    found = await user.database.select(tables.documents, where={"id": str(document_id)})
    if not found:
        raise HTTPException(404, "the document does not exist, or you have no access to it")
    return found[0]


async def _read_document(
    user: sessions.CurrentUser, document_id: uuid.UUID, run: int | None
) -> dict[str, Any]:
    document = await find_document(user, document_id)
    select, status = user.database.select, document["ocr_status"]
    (case,) = await select(tables.cases, columns="id,name", where={"id": document["case_id"]})
    return {
        "document": document,
        "case": case,
        "progress": await user.database.document_progress(document_id=str(document_id)),
        "pages": await _read_pages(user, document, run or document["run_id"]),
        "run": run or document["run_id"],
        "runs": await select(
            tables.ocr_runs, where={"document_id": str(document_id)}, order="id.desc"
        ),
        "versions": await _list_versions(user, document),
        "formats": list_formats(document) if document["run_id"] else [],
        "actions": _list_actions(document),
        "is_open": status in _OPEN and not document["deleted_at"],
    }


async def _read_pages(
    user: sessions.CurrentUser, document: Documents, run: int | None
) -> Sequence[PageTexts] | Sequence[OcrPages]:
    if run is None:
        return []
    # With corrections for the current run, without for earlier ones.
    table: Table[Any] = tables.page_texts if run == document["run_id"] else tables.ocr_pages
    return await user.database.select(
        table,
        columns="page_number,text,status,confidence,error",
        where={
            "run_id": run,
            "document_id": document["id"],
            "page_number": list(range(1, _PAGES_SHOWN + 1)),
        },
        order="page_number",
    )


async def _list_versions(user: sessions.CurrentUser, document: Documents) -> Sequence[Documents]:
    """Return the versions of a document, newest first, if there are several."""
    found = await user.database.select(
        tables.documents,
        columns="id,document_version,ocr_status,created_at,deleted_at",
        where={"case_id": document["case_id"], "name": document["name"]},
        order="document_version.desc",
        limit=100,
    )
    return found if len(found) > 1 else []


def list_formats(document: Documents) -> list[str]:
    """List the export formats; some need the original file."""
    if document["deleted_at"]:
        return []
    has_file = document["dropbox_path"] is not None
    return [name for name, form in exports.FORMATS.items() if has_file or not form.needs_original]


def _list_actions(document: Documents) -> list[Action]:
    """List the actions that apply to the state of a document; the database checks permissions."""
    if document["deleted_at"]:
        return [Action.RESTORE, Action.ERASE]
    status = document["ocr_status"]
    applies = {
        Action.READ_AGAIN: status in _READABLE_AGAIN and document["dropbox_path"] is not None,
        Action.CANCEL: status not in _ENDED,
        Action.DELETE: True,
        Action.ERASE: True,
    }
    return [action for action, is_applicable in applies.items() if is_applicable]


images_router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)


@images_router.get("/{document_id}/pages/{number}/picture")
async def show_picture(
    user: sessions.SignedIn, services: services.Current, document_id: uuid.UUID, number: int
) -> Response:
    """Redirect to a temporary link to a page image."""
    return RedirectResponse(
        services.links.make_page_image_link(await find_file_path(user, document_id), number), 303
    )


@images_router.get("/{document_id}/file")
async def show_file(
    user: sessions.SignedIn, services: services.Current, document_id: uuid.UUID
) -> Response:
    """Redirect to a temporary link to the original file."""
    return RedirectResponse(
        await services.links.make_file_link(await find_file_path(user, document_id)), 303
    )


async def find_file_path(user: sessions.CurrentUser, document_id: uuid.UUID) -> str:
    """Return the path of a document's file in the store."""
    rows = await user.database.select(
        tables.documents, columns="dropbox_path,ocr_status", where={"id": str(document_id)}
    )
    if not rows:
        raise HTTPException(404, "the document does not exist, or you have no access to it")
    path: str | None = rows[0]["dropbox_path"]
    if not path:
        awaited = rows[0]["ocr_status"] in {"awaiting_file", "extracting"}
        reason = "its extractor has not fetched it yet" if awaited else "upload it to see its pages"
        raise HTTPException(404, f"the document has no file; {reason}")
    return path.removeprefix("/")


upload_router = APIRouter(prefix=PAGE.path, include_in_schema=False)


async def upload(
    request: Request,
    user: sessions.SignedIn,
    services: services.Current,
    _token: csrf.HeaderToken,
) -> Response:
    """Upload a file, and show its progress."""
    document = await services.uploader.upload_document(
        await request_body.receive_file(request), user.database, is_service=False
    )
    document_id = uuid.UUID(document.document_id)
    return await _render_progress(request, user, document_id, existing=document.existing)


async def show_progress(
    request: Request, user: sessions.SignedIn, document_id: uuid.UUID
) -> Response:
    """Show the progress of a document."""
    await find_document(user, document_id)
    return await _render_progress(request, user, document_id, existing=False)


upload_router.add_api_route("", upload, methods=["POST"], route_class_override=route.UploadRoute)
upload_router.add_api_route(
    "/{document_id}/progress", show_progress, route_class_override=route.Route
)


async def _render_progress(
    request: Request, user: sessions.CurrentUser, document_id: uuid.UUID, *, existing: bool
) -> Response:
    progress = await user.database.document_progress(document_id=str(document_id))
    is_open = progress["ocr_status"] in _OPEN
    return rendering.render_page(
        request, "upload.html", progress=progress, existing=existing, is_open=is_open
    )
