"""Dead letters: the list, grouped by error; one dead letter; and typing its text by hand."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request, Response
from starlette.exceptions import HTTPException

from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.dashboard.pages import documents
from pagewarden.database import tables
from pagewarden.database.rows import DocumentEvent, ListedDeadLetter
from pagewarden.documents import dead_letters

PAGE = route.Page("Dead letters", "/dead-letters", route.Audience.ADMIN)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 50
GROUPS = 20

_STATUSES = ("pending", "investigating", "requeued", "manual", "abandoned")
_CATEGORIES = ("transient", "permanent", "resource", "configuration", "unknown")


class Action(enum.StrEnum):
    """Decisions; the values are those of resolve_dead_letter, and parts of paths."""

    INVESTIGATE = "investigate"
    REQUEUE = "requeue"
    MANUAL = "manual"
    ABANDON = "abandon"


DONE = {
    Action.INVESTIGATE: "You are investigating {}.",
    Action.REQUEUE: "Requeued: {}.",
    Action.MANUAL: "Marked to be typed by hand: {}.",
    Action.ABANDON: "Abandoned: {}. To undo this, use “Read again”.",
}

Notes = Annotated[str, Form(max_length=2000)]


class Filter(lists.ListFilter):
    """Filters of the list; before and before_id are those of the last row of the previous page."""

    path = PAGE.path

    status: str = ""
    category: str = ""
    case: str = ""
    group: str = ""
    name: str = ""
    before: str = ""
    before_id: str = ""
    offset: int = 0

    def criteria(self) -> dict[str, str]:
        """Return the filter for the database; empty if no filter is set."""
        values = {
            "status": self.status, "error_category": self.category, "case_id": self.case,
            "error_group": self.group, "name": self.name.strip(),
        }  # fmt: skip
        return {name: value for name, value in values.items() if value}

    def first_page_url(self) -> str:
        """Return the URL of the first page of this list."""
        return self.url(before="", before_id="", offset=0)


@router.get("")
async def show_list(
    request: Request, user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> Response:
    """Show matching dead letters, and groups of them by error."""
    is_fragment = request.headers.get("HX-Target") == "results"
    values = {
        "filters": filters,
        **await _read_page(user, filters),
        **await _read_groups(user, filters),
    }
    values["matching"] = await _count_matching(user, filters)
    values["now"] = dt.datetime.now(dt.UTC).isoformat()
    if not is_fragment:
        values["cases"] = await lists.list_cases(user, filters.case)
    return rendering.render_page(
        request, "dead_letters.html", is_fragment=is_fragment, actions=list(Action),
        statuses={status: status for status in _STATUSES},
        categories={category: category for category in _CATEGORIES}, **values,
    )  # fmt: skip


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    rows = await user.database.list_dead_letters(
        filter=filters.criteria(),
        before=filters.before or None,
        before_id=filters.before_id or None,
        limit=ROWS + 1,
    )

    def make_next_url(last: Mapping[str, Any]) -> str:
        return filters.url(before=last["last_failed_at"], before_id=last["dlq_id"], offset=0)

    shown, next_url = lists.split_page(rows, ROWS, make_next_url)
    return {"rows": shown, "next_url": next_url}


async def _read_groups(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    if filters.group or filters.before:
        return {"groups": [], "next_groups_url": None}
    groups = await user.database.dead_letter_groups(
        filter=filters.criteria(), limit=GROUPS + 1, offset=max(filters.offset, 0)
    )
    next_url = filters.url(offset=filters.offset + GROUPS) if len(groups) > GROUPS else None
    return {"groups": groups[:GROUPS], "next_groups_url": next_url}


async def _count_matching(user: sessions.CurrentUser, filters: Filter) -> int | None:
    """Count matching dead letters; None without a filter, since actions on all need one."""
    if not user.is_admin or not filters.criteria():
        return None
    return await user.database.count_dead_letters(filter=filters.criteria())


@router.post("/selected")
async def act_on_selected(
    user: sessions.Admin,
    _token: csrf.FormToken,
    filters: Annotated[Filter, Query()],
    action: Annotated[Action, Form(alias="act")],
    ids: Annotated[list[uuid.UUID] | None, Form(alias="id")] = None,
    notes: Notes = "",
) -> Response:
    """Resolve the selected dead letters."""
    if not ids:
        return flash.redirect_with_notice(filters.url(), flash.NOTHING_SELECTED, is_error=True)
    return await _resolve(user, filters, {"ids": [str(dlq_id) for dlq_id in ids]}, action, notes)


@router.post("/all")
async def act_on_all(
    user: sessions.Admin,
    _token: csrf.FormToken,
    filters: Annotated[Filter, Query()],
    action: Annotated[Action, Form(alias="act")],
    seen_at: Annotated[str, Form()],
    notes: Notes = "",
) -> Response:
    """Resolve all matching dead letters that had failed when they were counted."""
    criteria = filters.criteria()
    if not criteria:
        message = "No changes were made: select a filter first."
        return flash.redirect_with_notice(filters.url(), message, is_error=True)
    return await _resolve(user, filters, criteria | {"failed_before": seen_at}, action, notes)


async def _resolve(
    user: sessions.CurrentUser,
    filters: Filter,
    criteria: dict[str, Any],
    action: Action,
    notes: str,
) -> Response:
    outcome = await dead_letters.resolve_all(user.database, criteria, action, notes.strip() or None)
    message = DONE[action].format(flash.format_count(outcome.done, "dead letter"))
    return flash.redirect_with_outcome(
        filters.first_page_url(), outcome.done, message, outcome.skipped
    )


dead_letter_router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

_MAX_EVENTS = 100
_OPEN = {"pending", "investigating"}
# Decisions that read_again can undo, with the status they gave the document.
_UNDONE_BY_READ_AGAIN = {"abandoned": "failed", "manual": "pending_review"}

_EVENT_TEXTS = {
    "failure": "Attempt {attempt} failed",
    "lock_expired": "Worker lost during attempt {attempt}",
    "deadline": "Attempt {attempt} timed out",
    "outage": "Released during attempt {attempt} because of an outage",
    "conflict": "Conflicting changes",
    "extraction": "The file could not be fetched",
    "completed": "Completed on attempt {attempt}",
    "dead_letter": "Moved to dead letters",
    "dead_letter_investigate": "Investigation started",
    "dead_letter_manual": "Marked to be typed by hand",
    "dead_letter_abandon": "Abandoned",
    "requeued": "Requeued",
    "recover_stuck": "Released as stuck",
}


@dead_letter_router.get("/{dlq_id}")
async def show_dead_letter(
    request: Request, user: sessions.SignedIn, dlq_id: uuid.UUID
) -> Response:
    """Show a dead letter with the history of its document."""
    letter = await find_dead_letter(user, dlq_id)
    history = await user.database.document_history(
        document_id=letter["document_id"], limit=_MAX_EVENTS
    )
    return rendering.render_page(
        request, "dead_letter.html",
        letter=letter,
        document=await documents.find_document(user, uuid.UUID(letter["document_id"])),
        history=_describe_events(history),
        actions=list(Action) if letter["status"] in _OPEN else [],
        may_type=letter["ocr_status"] == "pending_review",
        may_undo=_UNDONE_BY_READ_AGAIN.get(letter["status"]) == letter["ocr_status"],
    )  # fmt: skip


@dead_letter_router.post("/{dlq_id}/read-again")
async def read_again(user: sessions.Admin, _token: csrf.FormToken, dlq_id: uuid.UUID) -> Response:
    """Undo that a document was abandoned or marked for typing, and queue it again."""
    letter = await find_dead_letter(user, dlq_id)
    answer = await user.database.read_again(document_id=letter["document_id"])
    return flash.redirect_with_answer(
        dead_letter_url(dlq_id), answer, "The document was queued again."
    )


@dead_letter_router.post("/{dlq_id}/{act}")
async def resolve(
    user: sessions.Admin,
    _token: csrf.FormToken,
    dlq_id: uuid.UUID,
    action: Annotated[Action, Path(alias="act")],
    notes: Notes = "",
) -> Response:
    """Resolve a dead letter, unless another user has done so."""
    answer = await user.database.resolve_dead_letter(
        dlq_id=str(dlq_id), action=action, notes=notes.strip() or None
    )
    message = DONE[action].format("this document")
    if other := answer["investigated_by"]:
        message = f"{message} {other} was still investigating it."
    is_typing = action is Action.MANUAL and answer["success"]
    return flash.redirect_with_answer(
        f"{dead_letter_url(dlq_id)}/type" if is_typing else dead_letter_url(dlq_id), answer, message
    )


async def find_dead_letter(user: sessions.CurrentUser, dlq_id: uuid.UUID) -> ListedDeadLetter:
    """Return a dead letter; raise a 404 if it is missing or the user has no access."""
    found = await user.database.list_dead_letters(filter={"ids": [str(dlq_id)]}, limit=1)
    if not found:
        raise HTTPException(404, "the dead letter does not exist, or you have no access to it")
    return found[0]


def dead_letter_url(dlq_id: uuid.UUID) -> str:
    """Return the URL of a dead letter."""
    return f"{PAGE.path}/{dlq_id}"


def _describe_events(history: Sequence[DocumentEvent]) -> list[dict[str, Any]]:
    """Add a description and the error type to each event."""
    return [
        {**event, "what": _describe_event(event), "error_type": _get_error_type(event)}
        for event in history
    ]


def _describe_event(event: DocumentEvent) -> str:
    kind = event["kind"]
    text = _EVENT_TEXTS.get(kind)
    return text.format(**event) if text else kind.replace("_", " ").capitalize()


def _get_error_type(event: DocumentEvent) -> str | None:
    # Workers of third parties may send any details.
    details = event["details"] if event["source"] == "error" else None
    return str(details["type"]) if isinstance(details, dict) and "type" in details else None


transcription_router = APIRouter(
    prefix=PAGE.path, route_class=route.LargeFormRoute, include_in_schema=False
)

# Starlette accepts at most 1,000 fields in a form.
MAX_PAGES = 900
_FIELD = "page-"


@transcription_router.get("/{dlq_id}/type")
async def show_form(request: Request, user: sessions.Admin, dlq_id: uuid.UUID) -> Response:
    """Show a field for each page, with the text recognised so far."""
    letter = await find_dead_letter(user, dlq_id)
    if letter["ocr_status"] != "pending_review":
        message = f"No text is needed: the document is already {letter['ocr_status']}."
        return flash.redirect_with_notice(
            dead_letter_url(dlq_id), message.replace("_", " "), is_error=True
        )
    texts = await _read_recognised_texts(user, letter)
    return _render_form(request, letter, texts, problem=None)


@transcription_router.post("/{dlq_id}/type")
async def complete(
    request: Request, user: sessions.Admin, _token: csrf.FormToken, dlq_id: uuid.UUID
) -> Response:
    """Complete the document with the typed text; show the text again if it cannot be saved."""
    letter = await find_dead_letter(user, dlq_id)
    texts = await _read_texts(request)
    if not any(text.strip() for text in texts.values()):
        return _render_form(request, letter, texts, problem="Enter the text of at least one page.")
    pages = [{"page_number": number, "text": text} for number, text in sorted(texts.items())]
    answer = await user.database.type_text(document_id=letter["document_id"], pages=pages)
    if not answer["success"]:
        letter = await find_dead_letter(user, dlq_id)
        message = f"Not saved: the document is now {letter['ocr_status']}. Your text is below."
        return _render_form(request, letter, texts, problem=message.replace("_", " "))
    return flash.redirect_with_notice(
        dead_letter_url(dlq_id), "The document was completed with your text."
    )


async def _read_texts(request: Request) -> dict[int, str]:
    form = await request.form()
    fields = {name.removeprefix(_FIELD): form[name] for name in form if name.startswith(_FIELD)}
    if not all(number.isdecimal() and 0 < int(number) <= MAX_PAGES for number in fields):
        raise HTTPException(400, "the form contains invalid page numbers")
    # Browsers send CRLF line endings.
    return {int(number): str(text).replace("\r\n", "\n") for number, text in fields.items()}


async def _read_recognised_texts(
    user: sessions.CurrentUser, letter: Mapping[str, Any]
) -> dict[int, str]:
    document = await documents.find_document(user, uuid.UUID(letter["document_id"]))
    if (document["page_count"] or 1) > MAX_PAGES:
        raise HTTPException(
            409,
            f"the document has {document['page_count']} pages, but the limit is {MAX_PAGES}; "
            "split it",
        )
    texts = dict.fromkeys(range(1, (document["page_count"] or 1) + 1), "")
    run = document["open_run_id"] or document["run_id"]
    if run is not None:
        rows = await user.database.select(
            tables.ocr_pages,
            columns="page_number,text", where={"run_id": run}, order="page_number",
            limit=MAX_PAGES,
        )  # fmt: skip
        texts |= {row["page_number"]: row["text"] for row in rows if row["page_number"] in texts}
    return texts


def _render_form(
    request: Request, letter: Mapping[str, Any], texts: Mapping[int, str], problem: str | None
) -> Response:
    status = 409 if problem else 200
    return rendering.render_page(
        request,
        "type_text.html",
        status,
        letter=letter,
        texts=sorted(texts.items()),
        problem=problem,
    )
