"""Turn what a Supabase project, or a gateway in front of it, answers into errors of ours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import httpx

from pagewarden import errors
from pagewarden.database import translate

if TYPE_CHECKING:
    from collections.abc import Iterator

# What PostgREST finds out by itself, as Postgres would have said it.
_SQLSTATE_OF_POSTGREST = {
    "PGRST000": "08006",  # no connection to the database
    "PGRST001": "08006",
    "PGRST002": "08006",  # no connection while it reads the schema
    "PGRST003": "53300",  # no free connection in time
    "PGRST103": "2201W",  # limit out of range
    "PGRST202": "42883",  # no such function
    "PGRST203": "42725",  # more than one such function
    "PGRST204": "42703",  # no such column
    "PGRST205": "42P01",  # no such table
    "PGRST300": "28000",  # no key to verify tokens with
    "PGRST301": "28000",  # token cannot be verified
    "PGRST302": "28000",  # no token
    "PGRST303": "28000",  # token expired
}


@contextlib.contextmanager
def foreign_errors() -> Iterator[None]:
    """Raise our errors instead of those of httpx."""
    try:
        yield
    except httpx.HTTPError as exc:
        raise _from_httpx(exc) from exc


def from_response(response: httpx.Response) -> errors.DatabaseError:
    """Make the error that an answer other than success means."""
    body = _body(response)
    code, message, hint = (_text(body.get(key)) for key in ("code", "message", "hint"))
    message = message or f"HTTP {response.status_code} {response.reason_phrase}"
    if code:
        return translate.by_sqlstate(_SQLSTATE_OF_POSTGREST.get(code, code), message, hint)
    # Not PostgREST but a gateway in front of it, which has no code.
    return _error_of_status(response.status_code)(message, hint=hint)


def _from_httpx(exc: httpx.HTTPError) -> errors.DatabaseError:
    if isinstance(exc, httpx.TransportError):
        reason = str(exc) or type(exc).__name__
        return errors.DatabaseAway(f"the database cannot be reached: {reason}")
    return errors.DatabaseError(str(exc))


def _error_of_status(status: int) -> type[errors.DatabaseError]:
    if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        return errors.Forbidden
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.BAD_GATEWAY:
        return errors.DatabaseAway
    return errors.DatabaseError


def _body(response: httpx.Response) -> dict[str, object]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
