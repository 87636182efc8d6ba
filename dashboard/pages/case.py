"""One case: what is in it, who sees it, and its end."""

from __future__ import annotations

import enum
import uuid
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, outcomes, rendering, route, visitors
from dashboard.pages import cases
from pagewarden import database, errors
from pagewarden.database import rows, tables

router = APIRouter(
    prefix=f"{cases.PAGE.path}/{{case_id}}", route_class=route.Route, include_in_schema=False
)

ENDED = {"completed", "cancelled", "failed"}


class Act(enum.StrEnum):
    """What can be done with a whole case; the values are parts of paths."""

    CANCEL = "cancel"
    DELETE = "delete"
    RESTORE = "restore"


_DONE = {
    Act.CANCEL: "Cancelled: {}. Read them again to undo that.",
    Act.DELETE: "The case is in the bin, with {}.",
    Act.RESTORE: "The case is out of the bin, with {}.",
}


class Contents(rows.CaseContentsAnswer):
    """What a case holds, and how many of its documents are not at their end."""

    waiting: int


class Role(enum.StrEnum):
    """What somebody can be to a case that is not theirs."""

    VIEWER = "viewer"
    EDITOR = "editor"


@router.get("")
async def one(request: Request, visitor: visitors.Signed, case_id: uuid.UUID) -> Response:
    """Show a case: what is in it, its people, what can be done."""
    case = await _find(visitor, case_id)
    people = await visitor.database.list_case_people(case_id=str(case_id))
    me = str(visitor.caller.user_id)
    return rendering.page(
        request,
        "case.html",
        case=case,
        contents=await _contents(visitor, case_id),
        people=people,
        me=me,
        roles=list(Role),
        may_end=visitor.is_admin or case["user_id"] == me,
    )


@router.post("/share")
async def share(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    case_id: uuid.UUID,
    email: Annotated[str, Form()],
    role: Annotated[Role, Form()],
) -> Response:
    """Let somebody see the case, or work in it."""
    await _find(visitor, case_id)
    if not email.strip():
        return notices.after(_path(case_id), "Say with whom, by an e-mail address.", bad=True)
    answer = await visitor.database.share_case_by_email(
        case_id=str(case_id), email=email.strip(), role=role
    )
    return notices.answered(_path(case_id), answer, f"{email.strip()} is {role} now.")


@router.post("/unshare")
async def unshare(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    case_id: uuid.UUID,
    user_id: Annotated[uuid.UUID, Form()],
) -> Response:
    """Take somebody out of the case."""
    await _find(visitor, case_id)
    answer = await visitor.database.share_case(
        case_id=str(case_id), user_id=str(user_id), role=None
    )
    return notices.answered(_path(case_id), answer, "They do not see the case any more.")


@router.get("/erase")
async def ask_erase(request: Request, visitor: visitors.Signed, case_id: uuid.UUID) -> Response:
    """Say what would be erased, and ask for the name of the case."""
    case = await _find(visitor, case_id)
    _require_owner(visitor, case)
    contents = await _contents(visitor, case_id)
    return rendering.page(request, "case_erase.html", case=case, contents=contents)


@router.post("/erase")
async def erase(
    visitor: visitors.Signed,
    _acting: forgery.Acting,
    case_id: uuid.UUID,
    name: Annotated[str, Form()] = "",
) -> Response:
    """Remove it for good, if its name was typed."""
    case = await _find(visitor, case_id)
    if name.strip() != case["name"].strip():
        said = "Nothing was erased: what you typed is not the name of the case."
        return notices.after(f"{_path(case_id)}/erase", said, bad=True)
    answer = await visitor.database.erase_case(case_id=str(case_id))
    return notices.answered(cases.PAGE.path, answer, f"Erased: {_documents(answer)}.")


@router.post("/{act}")
async def act(
    visitor: visitors.Signed, _acting: forgery.Acting, case_id: uuid.UUID, act: Act
) -> Response:
    """Do it, and lead back to the case."""
    await _find(visitor, case_id)
    answer = await _change(visitor.database, act, str(case_id))
    return notices.answered(_path(case_id), answer, _DONE[act].format(_documents(answer)))


async def _change(source: database.Database, act: Act, case_id: str) -> rows.CaseAnswer:
    calls = {
        Act.CANCEL: source.cancel_case,
        Act.DELETE: source.delete_case,
        Act.RESTORE: source.restore_case,
    }
    return await calls[act](case_id=case_id)


def _path(case_id: uuid.UUID) -> str:
    return f"{cases.PAGE.path}/{case_id}"


def _documents(answer: rows.CaseAnswer) -> str:
    return outcomes.count(answer["documents"] or 0, "document")


async def _find(visitor: visitors.Visitor, case_id: uuid.UUID) -> rows.Cases:
    found = await visitor.database.select(tables.cases, where={"id": str(case_id)})
    if not found:
        raise HTTPException(404, "there is no such case, or not for you")
    return found[0]


async def _contents(visitor: visitors.Visitor, case_id: uuid.UUID) -> Contents:
    (contents,) = await visitor.database.case_contents(case_id=str(case_id))
    waiting = sum(n for status, n in contents["statuses"].items() if status not in ENDED)
    return {**contents, "waiting": waiting}


def _require_owner(visitor: visitors.Visitor, case: rows.Cases) -> None:
    if not visitor.is_admin and case["user_id"] != str(visitor.caller.user_id):
        raise errors.Forbidden("only its owner and HAC can erase a case")
