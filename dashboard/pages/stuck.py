"""Stuck documents: claimed for too long; why, what happens next, and releasing them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from pagewarden.dashboard import csrf, flash, rendering, route, sessions
from pagewarden.database import rows

PAGE = route.Page("Stuck", "/stuck", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 100
# Workers send a heartbeat every five seconds.
_ALIVE_SECONDS = 60
_SWEEP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a document is stuck, and what happens automatically or on release."""

    reason: str
    if_kept: str
    if_released: str


@router.get("")
async def show_list(request: Request, user: sessions.Admin) -> Response:
    """Show stuck documents, longest held first."""
    found = await user.database.stuck_documents(limit=ROWS)
    now = dt.datetime.now(dt.UTC)
    shown = [{**row, "verdict": judge(row, now), "claim": _format_claim(row)} for row in found]
    return rendering.render_page(
        request, "stuck.html", is_fragment=False, rows=shown, is_full=len(found) == ROWS
    )


@router.post("/give-back")
async def release(
    user: sessions.Admin,
    _token: csrf.FormToken,
    claims: Annotated[list[str] | None, Form(alias="claim")] = None,
) -> Response:
    """Release documents from their workers, except those claimed again in the meantime."""
    if not claims:
        return flash.redirect_with_notice(PAGE.path, flash.NOTHING_SELECTED, is_error=True)
    answer = await user.database.give_back_documents(
        documents=[_parse_claim(claim) for claim in claims]
    )
    return flash.redirect_with_outcome(
        PAGE.path, answer["done"], _describe_release(answer), answer["skipped"]
    )


def _describe_release(answer: rows.GiveBackDocumentsAnswer) -> str:
    dead_letters = [d["name"] for d in answer["documents"] if d["ocr_status"] == "dead_letter"]
    message = f"Released: {flash.format_count(answer['done'], 'document')}."
    if dead_letters:
        message += f" Moved to dead letters after too many rescues: {', '.join(dead_letters)}."
    return message


def _format_claim(row: rows.StuckDocument) -> str:
    """Identify a claim of a document; later claims of the document differ."""
    return f"{row['document_id']} {row['claimed_at'] or ''}".strip()


def _parse_claim(claim: str) -> dict[str, str | None]:
    document_id, _, claimed_at = claim.partition(" ")
    return {"document_id": document_id, "claimed_at": claimed_at or None}


def judge(row: rows.StuckDocument, now: dt.datetime) -> Verdict:
    """Explain a row of stuck_documents."""
    return Verdict(_explain(row, now), _predict_sweep(row, now), _predict_release(row))


def _explain(row: rows.StuckDocument, now: dt.datetime) -> str:
    worker, held = row["locked_by"], rendering.format_duration(row["held_seconds"])
    expires_at, silent_seconds = row["lock_expires_at"], row["silent_seconds"]
    if worker is None or expires_at is None or silent_seconds is None:
        return (
            f"The document has been in status processing for {held}, but no worker has claimed it."
        )
    silent = rendering.format_duration(silent_seconds)
    if _parse_time(expires_at) <= now:
        return (
            f"{worker} was last seen {silent} ago; its lock has expired but has not been reclaimed."
        )
    if silent_seconds > _ALIVE_SECONDS:
        return (
            f"{worker} has held the claim for {held} and was last seen {silent} ago; its lock "
            "has not "
            "expired yet, so it may still be reading."
        )
    return f"{worker} is alive (last seen {silent} ago), but has held the claim for {held}."


def _predict_sweep(row: rows.StuckDocument, now: dt.datetime) -> str:
    silent_seconds = row["silent_seconds"]
    is_alive = silent_seconds is not None and silent_seconds <= _ALIVE_SECONDS
    deadline, due = row["attempt_deadline"], row["sweep_due_at"]
    if deadline is not None and (is_alive or _parse_time(deadline) < _parse_time(due)):
        due, outcome = deadline, _describe_failure(row)
    else:
        outcome = _describe_rescue(row)
    when = "on its next run" if _parse_time(due) <= now else _format_time_until(due, now)
    return (
        f"Without intervention, the sweep will reclaim the document {when}: "
        f"{outcome}.{_describe_sweep(row, now)}"
    )


def _predict_release(row: rows.StuckDocument) -> str:
    return f"If released now, {_describe_rescue(row)}."


def _describe_failure(row: rows.StuckDocument) -> str:
    number, limit = row["retry_count"] + 1, row["max_attempts"]
    outcome = "moves to dead letters" if number >= limit else "is retried after a delay"
    return f"it counts as failure {number} of {limit} and {outcome}"


def _describe_rescue(row: rows.StuckDocument) -> str:
    if row["new_pages"]:
        return "it returns to the queue with its new pages, and no rescue is counted"
    number, limit = row["rescues"] + 1, row["max_rescues"]
    if number > limit:
        return f"it moves to dead letters, because all {limit} rescues have been used"
    return f"it returns to the queue as rescue {number} of {limit}"


def _describe_sweep(row: rows.StuckDocument, now: dt.datetime) -> str:
    swept = row["swept_at"]
    if swept and (now - _parse_time(swept)).total_seconds() < _SWEEP_SECONDS:
        return ""
    last_run = (
        f"the sweep last ran {_format_time_since(swept, now)}"
        if swept
        else "the sweep has never run"
    )
    return f" But {last_run}: check that pagewarden up or a schedule is running."


def _parse_time(timestamp: str) -> dt.datetime:
    return dt.datetime.fromisoformat(timestamp)


def _format_time_until(timestamp: str, now: dt.datetime) -> str:
    return f"in {rendering.format_duration((_parse_time(timestamp) - now).total_seconds())}"


def _format_time_since(timestamp: str, now: dt.datetime) -> str:
    return (
        f"{rendering.format_duration(max((now - _parse_time(timestamp)).total_seconds(), 0))} ago"
    )
