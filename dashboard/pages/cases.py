"""Cases: the list, and one case with its contents, sharing, deletion and erasure."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request, Response
from starlette.exceptions import HTTPException

from pagewarden import database, errors
from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.database import rows, tables

PAGE = route.Page("Cases", "/cases")

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 14
KINDS = {"client": "Client", "registry": "Registry", "check": "Check"}


class Filter(lists.ListFilter):
    """Filters of the list; before and before_id are those of the last row of the previous page."""

    path = PAGE.path

    q: str = ""
    kind: str = ""
    bin: bool = False
    before: str = ""
    before_id: str = ""

    async def read(self, source: database.Database, limit: int) -> list[rows.ListedCase]:
        """Return matching cases; empty filters match all."""
        return await source.list_cases(
            search=self.q.strip() or None,
            kind=self.kind or None,
            deleted=self.bin,
            before=self.before or None,
            before_id=self.before_id or None,
            limit=limit,
        )


@router.get("")
async def show_list(
    request: Request, user: sessions.SignedIn, filters: Annotated[Filter, Query()]
) -> Response:
    """Show matching cases, newest first."""
    is_fragment = request.headers.get("HX-Target") == "results"
    values = {"filters": filters, "kinds": KINDS, **await _read_page(user, filters)}
    return rendering.render_page(request, "cases.html", is_fragment=is_fragment, **values)


async def _read_page(user: sessions.CurrentUser, filters: Filter) -> dict[str, Any]:
    found = await filters.read(user.database, ROWS + 1)

    def make_next_url(last: rows.ListedCase) -> str:
        return filters.url(before=last["created_at"], before_id=last["case_id"])

    shown, next_url = lists.split_page(found, ROWS, make_next_url)
    return {"rows": shown, "next_url": next_url}


@router.post("")
async def create(
    user: sessions.SignedIn, _token: csrf.FormToken, name: Annotated[str, Form()] = ""
) -> Response:
    """Create a case owned by the user, and redirect to it."""
    if not name.strip():
        return flash.redirect_with_notice(PAGE.path, "Enter a name for the case.", is_error=True)
    case_id = await user.database.create_case(name=name.strip())
    return flash.redirect_with_notice(f"{PAGE.path}/{case_id}", "Case created.")


case_router = APIRouter(
    prefix=f"{PAGE.path}/{{case_id}}", route_class=route.Route, include_in_schema=False
)

ENDED = {"completed", "cancelled", "failed"}


class CaseAction(enum.StrEnum):
    """Actions on a whole case; the values are parts of paths."""

    CANCEL = "cancel"
    DELETE = "delete"
    RESTORE = "restore"


_DONE = {
    CaseAction.CANCEL: "Cancelled: {}. To undo this, use “Read again” on each document.",
    CaseAction.DELETE: "The case was moved to the bin, along with {}.",
    CaseAction.RESTORE: "The case was restored, along with {}.",
}


class CaseContents(rows.CaseContentsAnswer):
    """The contents of a case; `waiting` counts its unfinished documents."""

    waiting: int


class Role(enum.StrEnum):
    """The role of a member who does not own the case."""

    VIEWER = "viewer"
    EDITOR = "editor"


@case_router.get("")
async def show_case(request: Request, user: sessions.SignedIn, case_id: uuid.UUID) -> Response:
    """Show a case with its contents, people and actions."""
    case = await _find_case(user, case_id)
    people = await user.database.list_case_people(case_id=str(case_id))
    me = str(user.caller.user_id)
    return rendering.render_page(
        request,
        "case.html",
        case=case,
        contents=await _read_contents(user, case_id),
        people=people,
        me=me,
        roles=list(Role),
        may_end=user.is_admin or case["user_id"] == me,
    )


@case_router.post("/share")
async def share(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    case_id: uuid.UUID,
    email: Annotated[str, Form()],
    role: Annotated[Role, Form()],
) -> Response:
    """Share the case, by e-mail address."""
    await _find_case(user, case_id)
    if not email.strip():
        return flash.redirect_with_notice(
            _case_path(case_id), "Enter an e-mail address.", is_error=True
        )
    answer = await user.database.share_case_by_email(
        case_id=str(case_id), email=email.strip(), role=role
    )
    return flash.redirect_with_answer(
        _case_path(case_id), answer, f"{email.strip()} is now {role}."
    )


@case_router.post("/unshare")
async def unshare(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    case_id: uuid.UUID,
    user_id: Annotated[uuid.UUID, Form()],
) -> Response:
    """Remove a member from the case."""
    await _find_case(user, case_id)
    answer = await user.database.share_case(case_id=str(case_id), user_id=str(user_id), role=None)
    return flash.redirect_with_answer(_case_path(case_id), answer, "Member removed.")


@case_router.get("/erase")
async def confirm_erase(request: Request, user: sessions.SignedIn, case_id: uuid.UUID) -> Response:
    """Show what would be erased, and ask for the name of the case."""
    case = await _find_case(user, case_id)
    _require_owner(user, case)
    contents = await _read_contents(user, case_id)
    return rendering.render_page(request, "case_erase.html", case=case, contents=contents)


@case_router.post("/erase")
async def erase(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    case_id: uuid.UUID,
    name: Annotated[str, Form()] = "",
) -> Response:
    """Erase the case, if its name was entered."""
    case = await _find_case(user, case_id)
    if name.strip() != case["name"].strip():
        message = "Nothing was erased: the name does not match the name of the case."
        return flash.redirect_with_notice(f"{_case_path(case_id)}/erase", message, is_error=True)
    answer = await user.database.erase_case(case_id=str(case_id))
    return flash.redirect_with_answer(PAGE.path, answer, f"Erased: {_count_documents(answer)}.")


@case_router.post("/{act}")
async def apply_action(
    user: sessions.SignedIn,
    _token: csrf.FormToken,
    case_id: uuid.UUID,
    action: Annotated[CaseAction, Path(alias="act")],
) -> Response:
    """Apply the action, and redirect to the case."""
    await _find_case(user, case_id)
    answer = await _call_action(user.database, action, str(case_id))
    return flash.redirect_with_answer(
        _case_path(case_id), answer, _DONE[action].format(_count_documents(answer))
    )


async def _call_action(
    source: database.Database, action: CaseAction, case_id: str
) -> rows.CaseAnswer:
    calls = {
        CaseAction.CANCEL: source.cancel_case,
        CaseAction.DELETE: source.delete_case,
        CaseAction.RESTORE: source.restore_case,
    }
    return await calls[action](case_id=case_id)


def _case_path(case_id: uuid.UUID) -> str:
    return f"{PAGE.path}/{case_id}"


def _count_documents(answer: rows.CaseAnswer) -> str:
    return flash.format_count(answer["documents"] or 0, "document")


async def _find_case(user: sessions.CurrentUser, case_id: uuid.UUID) -> rows.Cases:
    found = await user.database.select(tables.cases, where={"id": str(case_id)})
    if not found:
        raise HTTPException(404, "the case does not exist, or you have no access to it")
    return found[0]


async def _read_contents(user: sessions.CurrentUser, case_id: uuid.UUID) -> CaseContents:
    (contents,) = await user.database.case_contents(case_id=str(case_id))
    waiting = sum(n for status, n in contents["statuses"].items() if status not in ENDED)
    return {**contents, "waiting": waiting}


def _require_owner(user: sessions.CurrentUser, case: rows.Cases) -> None:
    if not user.is_admin and case["user_id"] != str(user.caller.user_id):
        raise errors.Forbidden("only the owner or HAC can erase a case")
