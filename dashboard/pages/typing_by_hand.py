"""What no machine could read, typed by a person beside its picture."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, rendering, route, visitors
from dashboard.pages import dead_letter, dead_letters, document
from pagewarden.database import tables

router = APIRouter(
    prefix=dead_letters.PAGE.path, route_class=route.Writing, include_in_schema=False
)

# A form has no more fields than this.
MOST_PAGES = 900
_FIELD = "page-"


@router.get("/{dlq_id}/type")
async def ask(request: Request, visitor: visitors.Admin, dlq_id: uuid.UUID) -> Response:
    """Show a field for each page, with what machines got of it."""
    letter = await dead_letter.find(visitor, dlq_id)
    if letter["ocr_status"] != "pending_review":
        said = f"There is nothing to type: the document is {letter['ocr_status']}."
        return notices.after(dead_letter.path(dlq_id), said.replace("_", " "), bad=True)
    texts = await _read_so_far(visitor, letter)
    return _page(request, letter, texts, problem=None)


@router.post("/{dlq_id}/type")
async def complete(
    request: Request, visitor: visitors.Admin, _acting: forgery.Acting, dlq_id: uuid.UUID
) -> Response:
    """Complete the document with what was typed; what cannot be kept is shown again."""
    letter = await dead_letter.find(visitor, dlq_id)
    texts = await _typed(request)
    if not any(text.strip() for text in texts.values()):
        return _page(request, letter, texts, problem="Nothing is typed yet.")
    pages = [{"page_number": number, "text": text} for number, text in sorted(texts.items())]
    answer = await visitor.database.type_text(document_id=letter["document_id"], pages=pages)
    if not answer["success"]:
        letter = await dead_letter.find(visitor, dlq_id)
        said = f"Not kept: the document is {letter['ocr_status']} now. Your text is still here."
        return _page(request, letter, texts, problem=said.replace("_", " "))
    return notices.after(dead_letter.path(dlq_id), "The document is complete, as you typed it.")


async def _typed(request: Request) -> dict[int, str]:
    given = await request.form()
    fields = {name.removeprefix(_FIELD): given[name] for name in given if name.startswith(_FIELD)}
    if not all(number.isdecimal() and 0 < int(number) <= MOST_PAGES for number in fields):
        raise HTTPException(400, "the form names pages that cannot be")
    # Browsers send line ends as networks have them.
    return {int(number): str(text).replace("\r\n", "\n") for number, text in fields.items()}


async def _read_so_far(visitor: visitors.Visitor, letter: Mapping[str, Any]) -> dict[int, str]:
    found = await document.find(visitor, uuid.UUID(letter["document_id"]))
    if (found["page_count"] or 1) > MOST_PAGES:
        raise HTTPException(
            409, f"it has {found['page_count']} pages, and {MOST_PAGES} can be typed; split it"
        )
    texts = dict.fromkeys(range(1, (found["page_count"] or 1) + 1), "")
    run = found["open_run_id"] or found["run_id"]
    if run is not None:
        rows = await visitor.database.select(
            tables.ocr_pages,
            columns="page_number,text", where={"run_id": run}, order="page_number",
            limit=MOST_PAGES,
        )  # fmt: skip
        texts |= {row["page_number"]: row["text"] for row in rows if row["page_number"] in texts}
    return texts


def _page(
    request: Request, letter: Mapping[str, Any], texts: Mapping[int, str], problem: str | None
) -> Response:
    status = 409 if problem else 200
    return rendering.page(
        request, "typing.html", status, letter=letter, texts=sorted(texts.items()), problem=problem
    )
