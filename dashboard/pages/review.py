"""The review of a page: its picture beside its text, to be corrected and approved."""

from __future__ import annotations

import uuid
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, rendering, route, sheets, typed, visitors
from dashboard.pages import document as one_document
from dashboard.pages import documents, reviews
from pagewarden import exports
from pagewarden.database import rows, tables
from pagewarden.database.table import Table
from pagewarden.documents import read_pages

router = APIRouter(prefix=documents.PAGE.path, route_class=route.Route, include_in_schema=False)

_COLUMNS = (
    "page_number,run_id,status,text,lines,confidence,width,height,error,details,version,approved,"
    "corrected_by,corrected_at"
)


@router.get("/{document_id}/review")
async def review(  # noqa: PLR0913  # each is a part of the address
    request: Request,
    visitor: visitors.Signed,
    document_id: uuid.UUID,
    *,
    page: int = 1,
    version: int | None = None,
    waiting: bool = False,
) -> Response:
    """Show a page beside its text, or as it was in an earlier version."""
    document = await one_document.find(visitor, document_id)
    row = await _row(visitor, document_id, page)
    shown = row
    if row is not None and version is not None and version != row["version"]:
        shown = await _earlier(visitor, document_id, row, version)
    return await _page(request, visitor, document, page, row=row, shown=shown, waiting=waiting)


async def edit(
    request: Request,
    visitor: visitors.Signed,
    given: typed.Form,
    _acting: forgery.Acting,
    document_id: uuid.UUID,
) -> Response:
    """Keep what was typed as a version, and lead on; if that cannot be, show it again."""
    document = await one_document.find(visitor, document_id)
    row = await _existing(visitor, document_id, given.page)
    answer = await visitor.database.correct_page(
        document_id=str(document_id),
        page_number=given.page,
        base_version=given.base,
        text=given.text if given.text != row["text"] else None,
        lines=_lines(given, row),
        approved=given.act is not typed.Act.SAVE,
    )
    if answer["success"]:
        return await _onwards(visitor, document, given, answer)
    row = await _existing(visitor, document_id, given.page)
    return await _page(
        request, visitor, document, given.page, row=row, shown=row, waiting=given.waiting,
        given=given, refusal=answer,
    )  # fmt: skip


router.add_api_route(
    "/{document_id}/review", edit, methods=["POST"], route_class_override=route.Writing
)


@router.post("/{document_id}/review/back")
async def back(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    document_id: uuid.UUID,
    page: Annotated[int, Form()],
    version: Annotated[int, Form()],
    base: Annotated[int, Form()],
) -> Response:
    """Make an earlier version the text again, as a new version."""
    await one_document.find(visitor, document_id)
    row = await _existing(visitor, document_id, page)
    earlier = await _earlier(visitor, document_id, row, version)
    answer = await visitor.database.correct_page(
        document_id=str(document_id),
        page_number=page,
        base_version=base,
        text=earlier["text"],
        lines=earlier["lines"],
    )
    done = f"The text is that of version {version} again."
    return notices.answered(address(document_id, page), answer, done)


def address(document_id: uuid.UUID | str, page: int, *, waiting: bool = False, **more: int) -> str:
    """Write the address of the review of a page."""
    query = {"page": page, **more} | ({"waiting": 1} if waiting else {})
    return f"{documents.PAGE.path}/{document_id}/review?{urlencode(query)}"


async def _page(  # noqa: PLR0913  # what the page shows
    request: Request,
    visitor: visitors.Visitor,
    document: rows.Documents,
    number: int,
    *,
    row: rows.PageTexts | None,
    shown: rows.PageTexts | None,
    waiting: bool,
    given: typed.Typed | None = None,
    refusal: rows.CorrectPageAnswer | None = None,
) -> Response:
    count = document["page_count"] or (number if row else 0)
    may_edit = await visitors.may_edit(visitor, document["case_id"])
    values: dict[str, Any] = {
        "document": document,
        "number": number,
        "count": count,
        "row": row,
        "shown": shown,
        "refusal": refusal,
        "is_old": shown is not row,
        "may_edit": may_edit and not document["deleted_at"],
        "before": address(document["id"], number - 1, waiting=waiting) if number > 1 else None,
        "after": address(document["id"], number + 1, waiting=waiting) if number < count else None,
        "here": address(document["id"], number, waiting=waiting),
        "waiting": waiting,
        "formats": exports.FORMATS,
    }
    if row is not None and shown is not None:
        values |= await _text(visitor, document, row, shown, given)
    status = 409 if refusal else 200 if row else 404
    return rendering.page(request, "review.html", status, **values)


async def _text(
    visitor: visitors.Visitor,
    document: rows.Documents,
    row: rows.PageTexts,
    shown: rows.PageTexts,
    given: typed.Typed | None,
) -> dict[str, Any]:
    runs = await visitor.database.select(
        tables.ocr_runs, columns="engine,engine_version", where={"id": row["run_id"]}
    )
    return {
        "sheet": sheets.of_row(shown, given.text if given else None),
        "differences": sheets.differences(given.text, row["text"]) if given else [],
        "versions": await visitor.database.page_versions(
            document_id=document["id"], page_number=row["page_number"]
        ),
        "run": runs[0] if runs else None,
        "mine": row["corrected_by"] == visitor.caller.user_id,
    }


def _lines(given: typed.Typed, row: rows.PageTexts) -> list[dict[str, object]] | None:
    """Give the lines of a changed text; none where it stays, or where it will be refused."""
    if given.text == row["text"] or given.base != row["version"]:
        return None
    lines = given.lines(sheets.of_row(row))
    if lines is None:
        lines = sheets.lines_of(row, given.text)
    return [read_pages.line_row(line) for line in lines]


async def _onwards(
    visitor: visitors.Visitor,
    document: rows.Documents,
    given: typed.Typed,
    answer: rows.CorrectPageAnswer,
) -> Response:
    here = address(document["id"], given.page, waiting=given.waiting)
    if given.act is typed.Act.SAVE:
        is_same = answer["version"] == given.base
        said = "Nothing was changed." if is_same else f"Saved as version {answer['version']}."
        return notices.after(here, said)
    done = f"Page {given.page} is approved."
    if given.act is typed.Act.APPROVE:
        return notices.after(here, done)
    if given.waiting:
        return notices.after(*await _next_waiting(visitor, document["id"], given.page, done))
    if given.page < (document["page_count"] or 0):
        return notices.after(address(document["id"], given.page + 1), done)
    return notices.after(f"{documents.PAGE.path}/{document['id']}", f"{done} It was the last one.")


async def _next_waiting(
    visitor: visitors.Visitor, document_id: str, page: int, done: str
) -> tuple[str, str]:
    """Find what waits next: in this document, after this page first, or else in another."""
    doubts = await visitor.database.select(
        tables.page_doubts, columns="page_number", where={"document_id": document_id}
    )
    numbers = sorted(row["page_number"] for row in doubts)
    if numbers:
        number = next((number for number in numbers if number > page), numbers[0])
        return address(document_id, number, waiting=True), done
    others = await visitor.database.list_doubts(limit=1)
    if others:
        first = others[0]
        path = address(first["document_id"], first["first_page"], waiting=True)
        return path, f"{done} This is the next document."
    return reviews.PAGE.path, f"{done} Nothing else waits."


async def _row(
    visitor: visitors.Visitor, document_id: uuid.UUID, page: int
) -> rows.PageTexts | None:
    found = await visitor.database.select(
        tables.page_texts,
        columns=_COLUMNS,
        where={"document_id": str(document_id), "page_number": page},
    )
    return found[0] if found else None


async def _existing(visitor: visitors.Visitor, document_id: uuid.UUID, page: int) -> rows.PageTexts:
    row = await _row(visitor, document_id, page)
    if row is None:
        raise HTTPException(404, "the document has no such page, or none that was read")
    return row


async def _earlier(
    visitor: visitors.Visitor, document_id: uuid.UUID, row: rows.PageTexts, version: int
) -> rows.PageTexts:
    """Give the page as it was in a version; version 0 is what was read."""
    table: Table[rows.PageCorrections | rows.OcrPages] = (
        tables.page_corrections if version else tables.ocr_pages
    )
    kept = {"document_id": str(document_id), "version": version}
    where = kept if version else {"run_id": row["run_id"]}
    found = await visitor.database.select(
        table,
        columns="text,lines,width,height",
        where={**where, "page_number": row["page_number"]},
    )
    if not found:
        raise HTTPException(404, "the page has no such version")
    earlier = found[0]
    places = earlier if earlier["lines"] else row
    return {
        **row,
        "text": earlier["text"],
        "lines": places["lines"],
        "width": places["width"],
        "height": places["height"],
        "version": version,
    }
