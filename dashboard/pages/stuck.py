"""Stuck documents: in the hands of a worker for too long, why, and what would come of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from dashboard import forgery, navigation, notices, outcomes, rendering, route, visitors

PAGE = navigation.Page("Stuck", "/stuck", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 100
# A worker that is heard of sends a sign of life every five seconds.
_ALIVE_SECONDS = 60
_SWEEP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a document counts as stuck, what happens if nobody acts, and what giving back does."""

    why: str
    by_itself: str
    by_hand: str


@router.get("")
async def listed(request: Request, visitor: visitors.Admin) -> Response:
    """Show what is stuck, the longest held first."""
    rows = await visitor.database.rpc("stuck_documents", p_limit=ROWS)
    now = dt.datetime.now(dt.UTC)
    shown = [{**row, "verdict": judge(row, now), "claim": _claim(row)} for row in rows]
    return rendering.page(request, "stuck.html", part=False, rows=shown, full=len(rows) == ROWS)


@router.post("/give-back")
async def give_back(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    claims: Annotated[list[str] | None, Form(alias="claim")] = None,
) -> Response:
    """Take these from their workers, except what changed hands meanwhile."""
    if not claims:
        return notices.after(PAGE.path, outcomes.NOTHING_CHOSEN, bad=True)
    answer = await visitor.database.rpc(
        "give_back_documents", p_documents=[_taken_apart(claim) for claim in claims]
    )
    return outcomes.after(PAGE.path, answer["done"], _said(answer), answer["skipped"])


def _said(answer: Mapping[str, Any]) -> str:
    buried = [d["name"] for d in answer["documents"] if d["ocr_status"] == "dead_letter"]
    said = f"Given back: {outcomes.count(answer['done'], 'document')}."
    if buried:
        said += f" Now among the dead letters, since workers died of it: {', '.join(buried)}."
    return said


def _claim(row: Mapping[str, Any]) -> str:
    """Name the claim that is meant; a later one of the same document is another."""
    return f"{row['document_id']} {row['claimed_at'] or ''}".strip()


def _taken_apart(claim: str) -> dict[str, str | None]:
    document_id, _, claimed_at = claim.partition(" ")
    return {"document_id": document_id, "claimed_at": claimed_at or None}


def judge(row: Mapping[str, Any], now: dt.datetime) -> Verdict:
    """Explain a row of stuck_documents."""
    return Verdict(_why(row, now), _by_itself(row, now), _by_hand(row))


def _why(row: Mapping[str, Any], now: dt.datetime) -> str:
    worker, held = row["locked_by"], rendering.duration(row["held_seconds"])
    if worker is None:
        return f"It has been marked as being read for {held}, but no worker has it."
    silent = rendering.duration(row["silent_seconds"])
    if _at(row["lock_expires_at"]) <= now:
        return (
            f"{worker} was last heard of {silent} ago; its lock has ended, and nobody took it back."
        )
    if row["silent_seconds"] > _ALIVE_SECONDS:
        return (
            f"{worker} has had it for {held} and was last heard of {silent} ago; its lock is a "
            "long one, so nobody knows whether it still reads."
        )
    return f"{worker} is alive (heard of {silent} ago), but has been reading it for {held}."


def _by_itself(row: Mapping[str, Any], now: dt.datetime) -> str:
    alive = row["locked_by"] is not None and row["silent_seconds"] <= _ALIVE_SECONDS
    deadline, due = row["attempt_deadline"], row["sweep_due_at"]
    if deadline is not None and (alive or _at(deadline) < _at(due)):
        due, then = deadline, _failed(row)
    else:
        then = _rescued(row)
    when = "with its next run" if _at(due) <= now else _in(due, now)
    return f"If nobody acts, the sweep takes it back {when}: {then}.{_sweeping(row, now)}"


def _by_hand(row: Mapping[str, Any]) -> str:
    return f"Given back now, {_rescued(row)}."


def _failed(row: Mapping[str, Any]) -> str:
    number, most = row["retry_count"] + 1, row["max_attempts"]
    then = "goes to the dead letters" if number >= most else "is tried again after a pause"
    return f"it counts as failure {number} of {most} and {then}"


def _rescued(row: Mapping[str, Any]) -> str:
    number, most = row["rescues"] + 1, row["max_rescues"]
    if number > most:
        return f"it goes to the dead letters, because {most} rescues are used up"
    return f"it goes back to the queue, as rescue {number} of {most}"


def _sweeping(row: Mapping[str, Any], now: dt.datetime) -> str:
    swept = row["swept_at"]
    if swept and (now - _at(swept)).total_seconds() < _SWEEP_SECONDS:
        return ""
    ran = f"it last ran {_ago(swept, now)}" if swept else "it has never run"
    return f" But {ran}: is pagewarden up, or its schedule, running?"


def _at(moment: str) -> dt.datetime:
    return dt.datetime.fromisoformat(moment)


def _in(moment: str, now: dt.datetime) -> str:
    return f"in {rendering.duration((_at(moment) - now).total_seconds())}"


def _ago(moment: str, now: dt.datetime) -> str:
    return f"{rendering.duration(max((now - _at(moment)).total_seconds(), 0))} ago"
