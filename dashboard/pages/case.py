"""One case: what is in it, who sees it, and its end."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from starlette.exceptions import HTTPException

from dashboard import forgery, notices, outcomes, rendering, route, visitors
from dashboard.pages import cases
from pagewarden import errors
from pagewarden.database import tables

router = APIRouter(
    prefix=f"{cases.PAGE.path}/{{case_id}}", route_class=route.Route, include_in_schema=False
)

ENDED = {"completed", "cancelled", "failed"}


class Act(enum.StrEnum):
    """What can be done with a whole case; the values are parts of paths."""

    CANCEL = "cancel"
    DELETE = "delete"
    RESTORE = "restore"


_ACTS = {
    Act.CANCEL: ("cancel_case", "Cancelled: {}. Read them again to undo that."),
    Act.DELETE: ("delete_case", "The case is in the bin, with {}."),
    Act.RESTORE: ("restore_case", "The case is out of the bin, with {}."),
}


class Role(enum.StrEnum):
    """What somebody can be to a case that is not theirs."""

    VIEWER = "viewer"
    EDITOR = "editor"


@router.get("")
async def one(request: Request, visitor: visitors.Signed, case_id: uuid.UUID) -> Response:
    """Show a case: what is in it, its people, what can be done."""
    case = await _find(visitor, case_id)
    people = await visitor.database.rpc("list_case_people", p_case_id=str(case_id))
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
    answer = await visitor.database.rpc(
        "share_case_by_email", p_case_id=str(case_id), p_email=email.strip(), p_role=role
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
    answer = await visitor.database.rpc(
        "share_case", p_case_id=str(case_id), p_user_id=str(user_id), p_role=None
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
    answer = await visitor.database.rpc("erase_case", p_case_id=str(case_id))
    return notices.answered(cases.PAGE.path, answer, f"Erased: {_documents(answer)}.")


@router.post("/{act}")
async def act(
    visitor: visitors.Signed, _acting: forgery.Acting, case_id: uuid.UUID, act: Act
) -> Response:
    """Do it, and lead back to the case."""
    await _find(visitor, case_id)
    function, done = _ACTS[act]
    answer = await visitor.database.rpc(function, p_case_id=str(case_id))
    return notices.answered(_path(case_id), answer, done.format(_documents(answer)))


def _path(case_id: uuid.UUID) -> str:
    return f"{cases.PAGE.path}/{case_id}"


def _documents(answer: Mapping[str, Any]) -> str:
    return outcomes.count(answer.get("documents", 0), "document")


async def _find(visitor: visitors.Visitor, case_id: uuid.UUID) -> Mapping[str, Any]:
    rows = await visitor.database.select(tables.cases, where={"id": str(case_id)})
    if not rows:
        raise HTTPException(404, "there is no such case, or not for you")
    return rows[0]


async def _contents(visitor: visitors.Visitor, case_id: uuid.UUID) -> Mapping[str, Any]:
    (contents,) = await visitor.database.rpc("case_contents", p_case_id=str(case_id))
    waiting = sum(n for status, n in contents["statuses"].items() if status not in ENDED)
    return {**contents, "waiting": waiting}


def _require_owner(visitor: visitors.Visitor, case: Mapping[str, Any]) -> None:
    if not visitor.is_admin and case["user_id"] != str(visitor.caller.user_id):
        raise errors.Forbidden("only its owner and HAC can erase a case")
