"""What an act says of itself: it is kept in the browser until the next page shows it, once."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

_COOKIE = "pagewarden-notice"
_SECONDS = 60
_LONGEST = 3800  # escaped; more does not fit into a cookie


def after(path: str, notice: str, *, bad: bool = False) -> Response:
    """Lead to the page that shows what has been done, and says so."""
    response = RedirectResponse(path, 303)
    kept = quote(f"{'bad' if bad else 'good'} {notice}", safe="")[:_LONGEST]
    response.set_cookie(_COOKIE, kept, max_age=_SECONDS, httponly=True, samesite="lax")
    return response


def answered(path: str, answer: Mapping[str, object], done: str) -> Response:
    """Say what was done, or why the database did not do it."""
    if answer.get("success"):
        return after(path, done)
    return after(path, str(answer.get("message") or answer.get("error")), bad=True)


def waiting(request: Request) -> tuple[str, str] | None:
    """Give the kind and the text of what is to be shown."""
    kind, mark, text = unquote(request.cookies.get(_COOKIE, "")).partition(" ")
    return (kind, text) if mark else None


def shown(response: Response) -> None:
    """Have it forgotten."""
    response.delete_cookie(_COOKIE, httponly=True, samesite="lax")
