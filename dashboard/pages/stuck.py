"""Stuck documents: in the hands of a worker for too long, why, and what would come of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from dashboard import forgery, navigation, notices, outcomes, rendering, route, visitors
from pagewarden.database import rows

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
    found = await visitor.database.stuck_documents(limit=ROWS)
    now = dt.datetime.now(dt.UTC)
    shown = [{**row, "verdict": judge(row, now), "claim": _claim(row)} for row in found]
    return rendering.page(request, "stuck.html", part=False, rows=shown, full=len(found) == ROWS)


@router.post("/give-back")
async def give_back(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    claims: Annotated[list[str] | None, Form(alias="claim")] = None,
) -> Response:
    """Take these from their workers, except what changed hands meanwhile."""
    if not claims:
        return notices.after(PAGE.path, outcomes.NOTHING_CHOSEN, bad=True)
    answer = await visitor.database.give_back_documents(
        documents=[_taken_apart(claim) for claim in claims]
    )
    return outcomes.after(PAGE.path, answer["done"], _said(answer), answer["skipped"])


def _said(answer: rows.GiveBackDocumentsAnswer) -> str:
    buried = [d["name"] for d in answer["documents"] if d["ocr_status"] == "dead_letter"]
    said = f"Given back: {outcomes.count(answer['done'], 'document')}."
    if buried:
        said += f" Now among the dead letters, since workers died of it: {', '.join(buried)}."
    return said


def _claim(row: rows.StuckDocument) -> str:
    """Name the claim that is meant; a later one of the same document is another."""
    return f"{row['document_id']} {row['claimed_at'] or ''}".strip()


def _taken_apart(claim: str) -> dict[str, str | None]:
    document_id, _, claimed_at = claim.partition(" ")
    return {"document_id": document_id, "claimed_at": claimed_at or None}


def judge(row: rows.StuckDocument, now: dt.datetime) -> Verdict:
    """Explain a row of stuck_documents."""
    return Verdict(_why(row, now), _by_itself(row, now), _by_hand(row))


def _why(row: rows.StuckDocument, now: dt.datetime) -> str:
    worker, held = row["locked_by"], rendering.duration(row["held_seconds"])
    expires_at, silent_seconds = row["lock_expires_at"], row["silent_seconds"]
    if worker is None or expires_at is None or silent_seconds is None:
        return f"It has been marked as being read for {held}, but no worker has it."
    silent = rendering.duration(silent_seconds)
    if _at(expires_at) <= now:
        return (
            f"{worker} was last heard of {silent} ago; its lock has ended, and nobody took it back."
        )
    if silent_seconds > _ALIVE_SECONDS:
        return (
            f"{worker} has had it for {held} and was last heard of {silent} ago; its lock is a "
            "long one, so nobody knows whether it still reads."
        )
    return f"{worker} is alive (heard of {silent} ago), but has been reading it for {held}."


def _by_itself(row: rows.StuckDocument, now: dt.datetime) -> str:
    silent_seconds = row["silent_seconds"]
    alive = silent_seconds is not None and silent_seconds <= _ALIVE_SECONDS
    deadline, due = row["attempt_deadline"], row["sweep_due_at"]
    if deadline is not None and (alive or _at(deadline) < _at(due)):
        due, then = deadline, _failed(row)
    else:
        then = _rescued(row)
    when = "with its next run" if _at(due) <= now else _in(due, now)
    return f"If nobody acts, the sweep takes it back {when}: {then}.{_sweeping(row, now)}"


def _by_hand(row: rows.StuckDocument) -> str:
    return f"Given back now, {_rescued(row)}."


def _failed(row: rows.StuckDocument) -> str:
    number, most = row["retry_count"] + 1, row["max_attempts"]
    then = "goes to the dead letters" if number >= most else "is tried again after a pause"
    return f"it counts as failure {number} of {most} and {then}"


def _rescued(row: rows.StuckDocument) -> str:
    number, most = row["rescues"] + 1, row["max_rescues"]
    if number > most:
        return f"it goes to the dead letters, because {most} rescues are used up"
    return f"it goes back to the queue, as rescue {number} of {most}"


def _sweeping(row: rows.StuckDocument, now: dt.datetime) -> str:
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
