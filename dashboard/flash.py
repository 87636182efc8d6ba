"""One-time notices: the outcome of an action, shown by the next page.

A notice is kept in a cookie until it is shown. For bulk actions, it contains the number of items
changed, and which items were skipped and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

NOTHING_SELECTED = "No changes were made: select at least one item first."

_COOKIE = "pagewarden-notice"
_SECONDS = 60
_MAX_LENGTH = 3800  # when escaped; a longer value does not fit into a cookie
_MAX_REASONS = 8


def redirect_with_notice(path: str, notice: str, *, is_error: bool = False) -> Response:
    """Redirect to a page that shows this notice."""
    response = RedirectResponse(path, 303)
    value = quote(f"{'bad' if is_error else 'good'} {notice}", safe="")[:_MAX_LENGTH]
    response.set_cookie(_COOKIE, value, max_age=_SECONDS, httponly=True, samesite="lax")
    return response


def redirect_with_answer(path: str, answer: Mapping[str, object], success_message: str) -> Response:
    """Redirect with a notice: `success_message`, or why the database rejected the action."""
    if answer.get("success"):
        return redirect_with_notice(path, success_message)
    return redirect_with_notice(
        path, str(answer.get("message") or answer.get("error")), is_error=True
    )


def read_notice(request: Request) -> tuple[str, str] | None:
    """Return the kind and text of the pending notice, if any."""
    kind, separator, text = unquote(request.cookies.get(_COOKIE, "")).partition(" ")
    return (kind, text) if separator else None


def clear_notice(response: Response) -> None:
    """Delete the pending notice."""
    response.delete_cookie(_COOKIE, httponly=True, samesite="lax")


def format_count(number: int, noun: str) -> str:
    """Format a number of items: 1 task, 5,000 tasks."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def redirect_with_outcome(
    path: str, changed: int, message: str, skipped: Sequence[Mapping[str, Any]]
) -> Response:
    """Redirect with the outcome of a bulk action; `message` describes what was done, if any."""
    sentences = [message if changed else "No changes were made."]
    if skipped:
        reasons = [_format_reason(item) for item in skipped[:_MAX_REASONS]]
        if len(skipped) > _MAX_REASONS:
            reasons.append(f"and {len(skipped) - _MAX_REASONS:,} more")
        sentences.append(f"Skipped {len(skipped):,}: {'; '.join(reasons)}.")
    return redirect_with_notice(path, " ".join(sentences), is_error=bool(skipped) or not changed)


def _format_reason(skipped: Mapping[str, Any]) -> str:
    name = skipped.get("name") or skipped.get("dlq_id") or skipped.get("document_id")
    return f"{name} ({skipped.get('message')})"
