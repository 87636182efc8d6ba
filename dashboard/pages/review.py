"""Review: documents with unread or doubtful pages; one page beside its text, to be corrected."""

from __future__ import annotations

import uuid
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from starlette.exceptions import HTTPException

from pagewarden import database
from pagewarden.dashboard import csrf, flash, lists, rendering, review_form, route, sessions
from pagewarden.dashboard.pages import documents
from pagewarden.database import rows, tables
from pagewarden.database.table import Table
from pagewarden.documents import pages

PAGE = route.Page("Review", "/review")

queue_router = APIRouter(route_class=route.Route, include_in_schema=False)

ROWS = 50


class Filter(lists.ListFilter):
    """Filters of the list; after and after_id are those of the last row of the previous page."""

    path = PAGE.path

    case: str = ""
    after: str = ""
    after_id: str = ""

    async def read(self, source: database.Database, limit: int) -> list[rows.DoubtfulDocument]:
        """Return matching documents; empty filters match all."""
        return await source.list_doubts(
            case_id=self.case or None,
            after=self.after or None,
            after_id=self.after_id or None,
            limit=limit,
        )


@queue_router.get(PAGE.path)
async def show_list(
    request: Request, user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> Response:
    """Show documents with pages to review, longest waiting first."""
    is_fragment = request.headers.get("HX-Target") == "results"
    values = {"filters": filters, **await _read_page(user, filters)}
    if not is_fragment:
        values["cases"] = await lists.list_cases(user, filters.case)
    return rendering.render_page(request, "review_list.html", is_fragment=is_fragment, **values)


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    found = await filters.read(user.database, ROWS + 1)

    def make_next_url(last: rows.DoubtfulDocument) -> str:
        return filters.url(after=last["created_at"], after_id=last["document_id"])

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    return {"rows": shown, "next_url": next_url}


router = APIRouter(prefix=documents.PAGE.path, route_class=route.Route, include_in_schema=False)

_COLUMNS = (
    "page_number,run_id,status,text,lines,confidence,width,height,error,details,version,approved,"
    "corrected_by,corrected_at"
)


@router.get("/{document_id}/review")
async def show_review(  # noqa: PLR0913  # parameters of the URL
    request: Request,
    user: sessions.SignedIn,
    document_id: uuid.UUID,
    *,
    page: int = 1,
    version: int | None = None,
    waiting: bool = False,
) -> Response:
    """Show a page beside its text, or an earlier version of the text."""
    document = await documents.find_document(user, document_id)
    row = await _find_row(user, document_id, page)
    shown = row
    if row is not None and version is not None and version != row["version"]:
        shown = await _read_version(user, document_id, row, version)
    return await _render_review(
        request, user, document, page, row=row, displayed=shown, waiting=waiting
    )


async def save(
    request: Request,
    user: sessions.SignedIn,
    form: review_form.SubmittedForm,
    _token: csrf.FormToken,
    document_id: uuid.UUID,
) -> Response:
    """Save the text as a new version and redirect; show the form again if it is rejected."""
    document = await documents.find_document(user, document_id)
    row = await _require_row(user, document_id, form.page)
    answer = await user.database.correct_page(
        document_id=str(document_id),
        page_number=form.page,
        base_version=form.base,
        text=form.text if form.text != row["text"] else None,
        lines=_make_lines(form, row),
        approved=form.action is not review_form.Action.SAVE,
    )
    if answer["success"]:
        return await _redirect_to_next(user, document, form, answer)
    row = await _require_row(user, document_id, form.page)
    return await _render_review(
        request, user, document, form.page, row=row, displayed=row, waiting=form.waiting,
        form=form, refusal=answer,
    )  # fmt: skip


router.add_api_route(
    "/{document_id}/review", save, methods=["POST"], route_class_override=route.LargeFormRoute
)


@router.post("/{document_id}/review/back")
async def restore_version(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    document_id: uuid.UUID,
    page: Annotated[int, Form()],
    version: Annotated[int, Form()],
    base: Annotated[int, Form()],
) -> Response:
    """Restore an earlier version, as a new version."""
    await documents.find_document(user, document_id)
    row = await _require_row(user, document_id, page)
    earlier = await _read_version(user, document_id, row, version)
    answer = await user.database.correct_page(
        document_id=str(document_id),
        page_number=page,
        base_version=base,
        text=earlier["text"],
        lines=earlier["lines"],
    )
    name = f"Version {version}" if version else "The recognised text"
    done = f"{name} was restored."
    return flash.redirect_with_answer(review_url(document_id, page), answer, done)


def review_url(
    document_id: uuid.UUID | str, page: int, *, waiting: bool = False, **params: int
) -> str:
    """Return the URL of the review of a page."""
    query = {"page": page, **params} | ({"waiting": 1} if waiting else {})
    return f"{documents.PAGE.path}/{document_id}/review?{urlencode(query)}"


async def _render_review(  # noqa: PLR0913  # values of the template
    request: Request,
    user: sessions.CurrentUser,
    document: rows.Documents,
    number: int,
    *,
    row: rows.PageTexts | None,
    displayed: rows.PageTexts | None,
    waiting: bool,
    form: review_form.ReviewForm | None = None,
    refusal: rows.CorrectPageAnswer | None = None,
) -> Response:
    count = document["page_count"] or (number if row else 0)
    may_edit = await sessions.may_edit(user, document["case_id"])
    values: dict[str, Any] = {
        "document": document,
        "number": number,
        "count": count,
        "row": row,
        "shown": displayed,
        "refusal": refusal,
        "is_old": displayed is not row,
        "may_edit": may_edit and not document["deleted_at"],
        "before": review_url(document["id"], number - 1, waiting=waiting) if number > 1 else None,
        "after": review_url(document["id"], number + 1, waiting=waiting)
        if number < count
        else None,
        "url": review_url(document["id"], number, waiting=waiting),
        "waiting": waiting,
        "formats": documents.list_formats(document),
    }
    if row is not None and displayed is not None:
        values |= await _read_text(user, document, row, displayed, form)
    status = 409 if refusal else 200 if row else 404
    return rendering.render_page(request, "review.html", status, **values)


async def _read_text(
    user: sessions.CurrentUser,
    document: rows.Documents,
    row: rows.PageTexts,
    displayed: rows.PageTexts,
    form: review_form.ReviewForm | None,
) -> dict[str, Any]:
    runs = await user.database.select(
        tables.ocr_runs, columns="engine,engine_version", where={"id": row["run_id"]}
    )
    return {
        "review_page": review_form.ReviewPage.from_row(displayed, form.text if form else None),
        "differences": review_form.compare_texts(form.text, row["text"]) if form else [],
        "versions": await user.database.page_versions(
            document_id=document["id"], page_number=row["page_number"]
        ),
        "run": runs[0] if runs else None,
        "mine": row["corrected_by"] == user.caller.user_id,
    }


def _make_lines(
    form: review_form.ReviewForm, row: rows.PageTexts
) -> list[dict[str, object]] | None:
    """Return the lines of a changed text; None if unchanged, or if the edit will be rejected."""
    if form.text == row["text"] or form.base != row["version"]:
        return None
    lines = form.retype_lines(review_form.ReviewPage.from_row(row))
    if lines is None:
        lines = review_form.fit_lines(row, form.text)
    return [pages.encode_line(line) for line in lines]


async def _redirect_to_next(
    user: sessions.CurrentUser,
    document: rows.Documents,
    form: review_form.ReviewForm,
    answer: rows.CorrectPageAnswer,
) -> Response:
    url = review_url(document["id"], form.page, waiting=form.waiting)
    if form.action is review_form.Action.SAVE:
        is_same = answer["version"] == form.base
        message = "No changes to save." if is_same else f"Saved as version {answer['version']}."
        return flash.redirect_with_notice(url, message)
    done = f"Page {form.page} was approved."
    if form.action is review_form.Action.APPROVE:
        return flash.redirect_with_notice(url, done)
    if form.waiting:
        return flash.redirect_with_notice(
            *await _next_waiting(user, document["id"], form.page, done)
        )
    if form.page < (document["page_count"] or 0):
        return flash.redirect_with_notice(review_url(document["id"], form.page + 1), done)
    return flash.redirect_with_notice(
        f"{documents.PAGE.path}/{document['id']}", f"{done} That was the last page."
    )


async def _next_waiting(
    user: sessions.CurrentUser, document_id: str, page: int, done: str
) -> tuple[str, str]:
    """Return the URL and notice of the next page to review, in this document or another."""
    doubts = await user.database.select(
        tables.page_doubts, columns="page_number", where={"document_id": document_id}
    )
    numbers = sorted(row["page_number"] for row in doubts)
    if numbers:
        number = next((number for number in numbers if number > page), numbers[0])
        return review_url(document_id, number, waiting=True), done
    others = await user.database.list_doubts(limit=1)
    if others:
        first = others[0]
        path = review_url(first["document_id"], first["first_page"], waiting=True)
        return path, f"{done} This is the next document."
    return PAGE.path, f"{done} No pages are left to review."


async def _find_row(
    user: sessions.CurrentUser, document_id: uuid.UUID, page: int
) -> rows.PageTexts | None:
    found = await user.database.select(
        tables.page_texts,
        columns=_COLUMNS,
        where={"document_id": str(document_id), "page_number": page},
    )
    return found[0] if found else None


async def _require_row(
    user: sessions.CurrentUser, document_id: uuid.UUID, page: int
) -> rows.PageTexts:
    row = await _find_row(user, document_id, page)
    if row is None:
        raise HTTPException(404, "the document has no such page, or the page has not been read")
    return row


async def _read_version(
    user: sessions.CurrentUser, document_id: uuid.UUID, row: rows.PageTexts, version: int
) -> rows.PageTexts:
    """Return the page with the text of a version; version 0 is the recognised text."""
    table: Table[rows.PageCorrections | rows.OcrPages] = (
        tables.page_corrections if version else tables.ocr_pages
    )
    by_version = {"document_id": str(document_id), "version": version}
    where = by_version if version else {"run_id": row["run_id"]}
    found = await user.database.select(
        table,
        columns="text,lines,width,height",
        where={**where, "page_number": row["page_number"]},
    )
    if not found:
        raise HTTPException(404, "the page has no such version")
    earlier = found[0]
    layout = earlier if earlier["lines"] else row
    return {
        **row,
        "text": earlier["text"],
        "lines": layout["lines"],
        "width": layout["width"],
        "height": layout["height"],
        "version": version,
    }
